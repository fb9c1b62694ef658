"""A program: run a `tapeline` command whose standard output goes to a file descriptor, apart from its errors.

    python command_output.py DESCRIPTOR COMMAND ARGUMENT...     # by the `tapeline` of PYTHONPATH

Nothing is imported from this folder, so that a worktree answers by its own code.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    os.dup2(int(sys.argv.pop(1)), 1)
    runpy.run_module("tapeline", run_name="__main__", alter_sys=True)
