"""Stage 4: a SavedModel, checked in a fresh process."""
