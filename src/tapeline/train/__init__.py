"""Stage 2: the engine. A graph inside, plain Python outside."""
