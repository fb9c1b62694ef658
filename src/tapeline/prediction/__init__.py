"""Predictions of a registered model for files: fetched and checked by the registry, run by TensorFlow, tabulated."""
