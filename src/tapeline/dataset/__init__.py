"""A dataset on disk as every stage reads it: columns, and what they hold."""
