"""One file per workload, named as the command line names it; each defines `WORKLOAD`."""
