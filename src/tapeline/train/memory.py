"""Whether the training columns are held in memory or streamed from disk."""

import os

RAM_SHARE = 0.25
"""Of the machine's memory that columns may take."""


def fits_in_ram(nbytes: int) -> bool:
    """Return whether columns of so many bytes are held in memory."""
    return nbytes <= RAM_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
