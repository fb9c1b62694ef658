"""What runs by itself: deployments, the process that runs what is due, and runs that died or came late."""
