"""Checks before the first step: refuse a recipe that could not resume, repeat or finish."""
