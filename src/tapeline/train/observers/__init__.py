"""Hooks that watch a run without influencing it: console, TensorBoard, profile, pictures, progress."""
