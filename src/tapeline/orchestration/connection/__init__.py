"""The Prefect server that a flow talks to: the configured one, or one of its own."""
