"""The `tapeline` commands, by topic. Each module adds its commands; slow imports are deferred until a command runs."""
