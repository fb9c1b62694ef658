"""One file per way of training: the loop that all workloads of a peer share. A workload defines model and step."""
