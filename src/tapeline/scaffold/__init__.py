"""`tapeline init`: the files of a new project, and a first dataset and recipe from data that are looked at."""
