"""Where a run is seen: on a Prefect server, or in the terminal and a file."""
