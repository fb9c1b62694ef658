"""SavedModels that may be anybody's: what their graphs may do, decided before they are loaded."""

DEFAULT = "serving_default"
"""The signature that is called if no other is asked for."""
