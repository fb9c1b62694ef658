"""Scheduled runs: deployments, the process that starts due runs, and runs that died or are late."""
