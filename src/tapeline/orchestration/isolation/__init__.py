"""A run in its own Git worktree that ends as one commit on a branch `runs/<flow run>`."""
