"""What a run reports to people and automations: progress, the report with pictures, the comparison, events."""
