"""Versions and stages as Git tags: their names, their records and what they say together."""
