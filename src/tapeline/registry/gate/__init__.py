"""The gate decides whether a version is good enough: both models' answers, the tests on them, and the verdict."""
