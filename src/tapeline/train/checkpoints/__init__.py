"""Checkpoints: when they are written, how they stand on disk, and which may be resumed from."""
