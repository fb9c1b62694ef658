"""Tapeline side by side with what a user could pick instead: `python -m benchmarks.run`."""
