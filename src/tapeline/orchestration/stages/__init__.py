"""DVC's view of a pipeline: what is stale, a stage's `dvc repro` as a child process, its progress and its outcome."""
