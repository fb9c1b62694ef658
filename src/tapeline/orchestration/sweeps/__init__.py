"""A search over parameters: what is asked for, the study, its trials and its page."""
