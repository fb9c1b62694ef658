"""A pipeline as DVC has it: what is stale, a stage's `dvc repro` as a child, its progress and its outcome."""
