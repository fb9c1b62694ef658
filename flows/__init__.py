"""Orchestration: Prefect schedules and watches what DVC repeats. Nothing here imports TensorFlow."""
