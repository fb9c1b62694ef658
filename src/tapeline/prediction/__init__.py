"""A registered model's answers to files: brought and checked by the registry, run by TensorFlow, written as a table."""
