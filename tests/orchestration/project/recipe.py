"""No recipe: the stages of this project do not train."""
