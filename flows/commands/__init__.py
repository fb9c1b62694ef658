"""The command lines: what can be answered before Prefect is imported."""
