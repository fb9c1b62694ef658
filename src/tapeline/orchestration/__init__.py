"""Prefect schedules and watches what DVC repeats. The only package that imports Prefect; never TensorFlow."""
