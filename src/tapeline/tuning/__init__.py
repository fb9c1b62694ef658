"""Measurements for choosing `params.yaml` settings: a learning rate, a compile mode. No stages, no outputs."""
