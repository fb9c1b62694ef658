"""What `tapeline` can do, by topic. Each module adds its commands; what takes seconds to import waits for a call."""
