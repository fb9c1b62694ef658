"""TFDS builders of our own, one file each: what `source: builder` can name."""
