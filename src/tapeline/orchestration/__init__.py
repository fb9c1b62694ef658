"""Prefect schedules and monitors what DVC reproduces. The only package that imports Prefect; never TensorFlow.

Its import caps the process, which hands its environment to what it starts: a worker, or `python -m flows.training`,
calls no command of Tapeline first. NumPy comes after it, in the flows and in the process that stages are forks of.
"""

from tapeline.runtime import caps, user

user.known()
caps.note(caps.apply(), why="NumPy, OpenBLAS and Arrow compute the same on every CPU")
