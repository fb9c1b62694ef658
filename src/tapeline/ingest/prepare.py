"""TFDS's own preparation of a dataset, with its waiting for a network bounded."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tensorflow_datasets as tfds

from tapeline.ingest.network import unreachable
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.progress import Report


def prepare(builder: Any, *, downloads: Path, bring: str, report: Report) -> None:
    """Download and prepare into the builder's `data_dir`, which must not hold this version yet.

    `bring` says how to do without the network. Raises `InputError` when a host cannot be reached, `RunError` when a
    download fails later. What else goes wrong (the builder's own code, the disk) goes through as it is.
    """
    _keep_quiet(builder)
    _ask_hosts_first(builder, bring, report)
    config = tfds.download.DownloadConfig(try_download_gcs=False)
    try:
        builder.download_and_prepare(download_dir=str(downloads), download_config=config)
    except tfds.download.DownloadError as error:
        raise RunError(f"{one_line(error)} {bring}") from error
    except OSError as error:
        if error.errno is None and isinstance(error, FileNotFoundError):  # what the builder's examples name
            raise InputError(f"{builder.name}: an example names a file that is not there: {one_line(error)}") from error
        if error.errno is None:  # of `requests` or of TFDS itself, not of the disk
            raise RunError(f"{builder.name} could not be downloaded or prepared: {one_line(error)}; {bring}") from error
        raise


def one_line(error: BaseException) -> str:
    """Return an error's text, which in TFDS may be many lines, as one of at most 300 characters."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("Failed to encode example"):
        lines = lines[-1:]  # between the two stands the whole example
    text = " ".join(lines) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."


def _keep_quiet(builder: Any) -> None:
    """Drop TFDS's bars (a stage's log is no terminal) and its two lines that name a folder of this machine."""
    tfds.disable_progress_bar()
    builder._log_download_bytes = builder._log_download_done = lambda: None


def _ask_hosts_first(builder: Any, bring: str, report: Report) -> None:
    """Have the builder's download manager ask each host once, before the first download from it.

    TFDS offers no hook there. `_download` is what it calls for a file that is neither cached nor brought by hand.
    """
    make_manager = builder._make_download_manager
    asked: set[str] = set()

    def make_asking_manager(**options: Any) -> Any:
        manager = make_manager(**options)
        download = manager._download

        def ask_then_download(resource: Any) -> Any:
            host = urlsplit(resource.url).hostname or ""
            if host not in asked and (reason := unreachable(resource.url)):
                raise InputError(
                    f"{builder.name} is not on this machine and {host} cannot be reached ({reason}): {bring}"
                )
            asked.add(host)
            print(f"downloading {resource.url}", flush=True)
            report({"event": "download", "url": resource.url})
            return download(resource)

        manager._download = ask_then_download
        return manager

    builder._make_download_manager = make_asking_manager
