"""Checkpoints: when to write them, their format on disk, and which ones a run may resume from."""
