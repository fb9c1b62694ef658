"""Everything about the Git and DVC repository: what is recorded, what is stale, what can be repaired or removed."""
