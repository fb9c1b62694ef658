"""Prefect schedules and monitors what DVC reproduces. The only package that imports Prefect; never TensorFlow."""
