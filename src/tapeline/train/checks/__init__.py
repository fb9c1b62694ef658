"""What is refused before the first step: a recipe that could not resume, repeat or reach its end."""
