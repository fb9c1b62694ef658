"""Stage 3: the test split's metrics and the verdict."""
