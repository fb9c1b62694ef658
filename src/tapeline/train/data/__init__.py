"""From a step's number to its batch."""
