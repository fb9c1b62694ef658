"""Hooks that watch a run without influencing it: console, TensorBoard, profile, pictures, progress.

A job is given them, see `standard`; training imports none, so a change here makes no result stale.
"""
