"""One file a recipe: read them, copy them, write your own."""
