"""The Prefect server that a flow talks to: the configured one, or a temporary one."""
