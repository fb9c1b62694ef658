"""A name and a home for a user whom this machine does not know, as in a container that runs as a mere number.

DVC asks for the user's name, and many libraries for a home, and fail where there is none.
"""

import os
import pwd
from contextlib import suppress

from tapeline.runtime import scratch

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""The variables in which Python's `getpass` looks for the name."""


def known() -> None:
    """Set `USER` and `HOME`, for this process and those that it starts, where neither they nor the system say it.

    The home is a folder for this user alone, below that of temporary files; where that is another's, there is none.
    """
    named, at_home = any(map(os.environ.get, NAMES)), os.environ.get("HOME")
    if named and at_home:
        return
    with suppress(KeyError):
        pwd.getpwuid(os.getuid())
        return
    if not named:
        os.environ["USER"] = str(os.getuid())
    if not at_home and (place := scratch.private()):
        home = place / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        os.environ["HOME"] = str(home)
