"""Stage 1: a source's examples become fixed-shape columns in `data/<dataset>/`."""
