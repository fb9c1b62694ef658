"""Stage 2: training. A graph inside, plain Python outside."""
