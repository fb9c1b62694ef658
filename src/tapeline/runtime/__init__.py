"""What a stage's process stands on: errors, files, signals, progress, its environment and its start."""
