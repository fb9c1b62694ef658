"""One file per workload, named as on the command line; each defines `WORKLOAD`."""
