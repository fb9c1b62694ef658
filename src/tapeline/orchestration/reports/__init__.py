"""What people and automations are told of a run: progress, the report with pictures, the comparison, events."""
