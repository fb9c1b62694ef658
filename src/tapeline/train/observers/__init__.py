"""Hooks that watch a run and decide nothing: console, TensorBoard, profile, pictures, progress."""
