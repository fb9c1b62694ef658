"""A search over parameters: the request, the study, its trials and its page."""
