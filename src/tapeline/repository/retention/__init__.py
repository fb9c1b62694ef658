"""What old runs hold, and the removal of what nothing keeps."""
