"""A dataset on disk as every stage reads it: its columns and their statistics."""
