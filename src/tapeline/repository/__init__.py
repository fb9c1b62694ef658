"""Everything that knows Git or DVC: what is recorded, what is stale, what can be repaired or removed."""
