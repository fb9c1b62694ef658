"""The command lines: they handle everything possible before Prefect is imported."""
