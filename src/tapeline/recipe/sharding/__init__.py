"""A step of several shards of a batch: they meet where the batch is one, and each has what is its own."""
