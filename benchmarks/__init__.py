"""Tapeline compared with its alternatives: `python -m benchmarks.run`."""
