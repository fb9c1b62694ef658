"""Parse untrusted text and arrays: any fault is reported in one line."""
