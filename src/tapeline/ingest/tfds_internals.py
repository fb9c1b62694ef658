"""The one module that uses names of TFDS which it does not document; all else of TFDS here is its public API.

Every name has a test in `tests/ingest/test_tfds_internals.py`, and `pyproject.toml` bounds TFDS's version.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds


def unregistered() -> AbstractContextManager[None]:
    """Define builders in the block without entering them into TFDS's catalogue."""
    block: AbstractContextManager[None] = tfds.core.registered.skip_registration()
    return block


def set_folder(builder_class: Any, folder: Path) -> None:
    """Set where TFDS looks for a builder's checksums: a class that was not imported from a file does not know."""
    builder_class.pkg_dir_path = tfds.core.Path(folder)


def keep_quiet(builder: Any) -> None:
    """Turn off the two lines, with a path of this machine, that TFDS prints around a download."""
    builder._log_download_bytes = builder._log_download_done = lambda: None


def before_each_download(builder: Any, ask: Callable[[str], None]) -> None:
    """Call `ask` with the URL of each file that is neither cached nor provided manually, before it is downloaded.

    TFDS has no hook for this; its download manager calls `_download` for such a file.
    """
    make_manager = builder._make_download_manager

    def make_asking_manager(**options: Any) -> Any:
        manager = make_manager(**options)
        download = manager._download

        def ask_then_download(resource: Any) -> Any:
            ask(resource.url)
            return download(resource)

        manager._download = ask_then_download
        return manager

    builder._make_download_manager = make_asking_manager
