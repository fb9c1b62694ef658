"""Prepare a dataset with TFDS, with a bound on its wait for the network."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tensorflow_datasets as tfds

from tapeline.ingest import tfds_internals
from tapeline.ingest.network import unreachable
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.progress import Report


def prepare(builder: Any, *, downloads: Path, bring: str, report: Report) -> None:
    """Download and prepare into the builder's `data_dir`, which must not hold this version yet.

    bring: how to do without the network, for messages. Raises `InputError` if a host cannot be reached, `RunError` if
    a download fails later. Other errors (from the builder's code or the disk) propagate unchanged.
    """
    tfds.disable_progress_bar()  # a stage's log is not a terminal
    tfds_internals.keep_quiet(builder)
    _ask_hosts_first(builder, bring, report)
    config = tfds.download.DownloadConfig(try_download_gcs=False)
    try:
        builder.download_and_prepare(download_dir=str(downloads), download_config=config)
    except tfds.download.DownloadError as error:
        raise RunError(f"{one_line(error)} {bring}") from error
    except OSError as error:
        if error.errno is None and isinstance(error, FileNotFoundError):  # a file named in the builder's examples
            raise InputError(
                f"{builder.name}: an example names a file that does not exist: {one_line(error)}"
            ) from error
        if error.errno is None:  # from `requests` or TFDS itself, not from the disk
            raise RunError(f"{builder.name} could not be downloaded or prepared: {one_line(error)}; {bring}") from error
        raise


def one_line(error: BaseException) -> str:
    """Return an error's message, which in TFDS may have many lines, as one line of at most 300 characters."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("Failed to encode example"):
        lines = lines[-1:]  # the whole example is in between
    text = " ".join(lines) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."


def _ask_hosts_first(builder: Any, bring: str, report: Report) -> None:
    """Have each host checked once, before the first download from it."""
    asked: set[str] = set()

    def ask(url: str) -> None:
        host = urlsplit(url).hostname or ""
        if host not in asked and (reason := unreachable(url)):
            raise InputError(f"{builder.name} is not on this machine and {host} cannot be reached ({reason}): {bring}")
        asked.add(host)
        print(f"downloading {url}", flush=True)
        report({"event": "download", "url": url})

    tfds_internals.before_each_download(builder, ask)
