"""Predictions for files, by a version that the registry brings and checks, or by an exported folder."""
