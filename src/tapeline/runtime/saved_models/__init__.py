"""SavedModels that may be anybody's: what their graphs may do, decided before they are loaded."""
