"""Text and arrays that somebody else may have written: whatever is wrong with them is one line."""
