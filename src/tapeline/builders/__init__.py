"""Tapeline's own TFDS builders, one file each, for `source: builder`."""
