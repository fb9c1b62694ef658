"""Stage 3: the metrics of the test split, and the verdict."""
