"""Custom TensorFlow training loops that are fast, resume to the bit, repeat to the byte, and reach production."""
