"""A run in a Git worktree of its own that ends as one commit on a branch `runs/<flow run>`."""
