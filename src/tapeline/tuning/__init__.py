"""Measuring what to put into `params.yaml`: a learning rate, a compile mode. Nothing here is a stage or has an out."""
