"""The flows: a screen each, from the tasks of this package. `flows/` of a project may have others."""
