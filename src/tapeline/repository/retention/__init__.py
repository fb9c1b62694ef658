"""The storage that old runs occupy, and the removal of what nothing keeps."""
