"""Versions and stages as Git tags: their names, their records and the state that they define."""
