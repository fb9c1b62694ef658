"""`tapeline init`: the files of a new project, and a first dataset and recipe inferred from data."""
