"""What every stage process builds on: errors, files, signals, progress, environment and startup."""
