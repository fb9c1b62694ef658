"""What a run does, written once: under Prefect or without it, seen through a monitor."""
