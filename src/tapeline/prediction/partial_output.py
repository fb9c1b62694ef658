"""A partial output: kept in a hidden folder beside the output, so that the same call continues where it was stopped.

with PartialOutput.opened(out, call, note=print) as partial:
    file = partial.file("answers")
    partial.save({...})
    partial.finish()
"""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tapeline.parsing import json_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

STATE, ANSWERS, LOCK = "state.json", "answers", "lock"


def check(out: Path) -> None:
    """Raise `InputError` for an output in whose place is anything but a regular file: that would be replaced.

    A link is refused, too: behind it may be anything, such as DVC's cache. And so is a file in a folder that
    Tapeline replaces as a whole.
    """
    folder = Path(os.path.realpath(out.parent))
    if replaced := [path for path in (folder, *folder.parents) if _is_output(path)]:
        raise InputError(f"--out is {str(out)!r}, in {replaced[0]}, which is replaced as a whole: give another folder")
    try:
        found = out.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found):
        raise InputError(f"--out is {str(out)!r}, a link: give the file that it points to, or remove the link")
    if stat.S_ISDIR(found):
        raise InputError(f"--out is {str(out)!r}, a folder: give the name of a file")
    if not stat.S_ISREG(found):
        raise InputError(f"--out is {str(out)!r}, which is a FIFO, a socket or a device: give the name of a file")


def _is_output(folder: Path) -> bool:
    """Return whether a folder is the output of a stage, or a served version."""
    above = folder.parent
    return (
        (above.name == "data" and (folder / "dataset.json").is_file())
        or (above.name == "models" and (folder / "model.json").is_file())
        or (above.parent.name == "runs" and folder.name in ("train", "validate") and folder.is_dir())
        or (above.parent.name == "serving" and folder.name.isdecimal())
    )


class PartialOutput:
    """The folder of one output; this process has it alone."""

    def __init__(self, out: Path, folder: Path, call: Mapping[str, Any], saved: Mapping[str, Any] | None) -> None:
        self.out, self.folder, self._call, self.saved = out, folder, json.loads(json.dumps(call)), saved
        """saved: what the last `save` of the same call said; None at a beginning."""
        self._files: list[IO[bytes]] = []

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, out: Path, call: Mapping[str, Any], *, fresh: bool, note: Callable[[str], object]
    ) -> Iterator["PartialOutput"]:
        """Yield the partial output of the same call, or a new one.

        call: all that decides the bytes. What was saved outlives any end but an `InputError`; what was not, none.
        Raises `InputError` as `check` does, if another process writes it, or if the folder is somebody else's.
        """
        check(out)
        folder = out.with_name(f".{out.name}{files.PARTIAL}")
        with _locked(out, folder):
            partial = cls(out, folder, call, None)
            partial._load(fresh=fresh, note=note)
            try:
                yield partial
            except BaseException as error:
                partial._close()
                if partial.saved is None or isinstance(error, InputError):
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    count = partial.saved["examples"]
                    note(f"{count:,} predictions are kept: the same command resumes, --fresh starts over")
                raise
            partial._close()
            shutil.rmtree(folder, ignore_errors=True)

    def _load(self, *, fresh: bool, note: Callable[[str], object]) -> None:
        try:
            content = json_text.mapping(files.read_bytes(self.folder / STATE))
            before, saved = dict(content["call"]), dict(content["saved"])
        except (FileNotFoundError, json_text.NotJson, KeyError, TypeError, ValueError):
            self.discard()
            return
        if fresh:
            self.discard()
        elif other := [name for name in {**self._call, **before} if before.get(name) != self._call.get(name)]:
            note(f"{self.out}: found partial results of a different call ({', '.join(other)}); starting over")
            self.discard()
        else:
            self.saved = saved

    def discard(self) -> None:
        """Forget what is there."""
        self._close()
        self.saved = None
        for path in self.folder.iterdir():
            if path.name != LOCK:
                path.unlink()

    def file(self, name: str) -> IO[bytes]:
        """Open a file for reading and writing; its content stays if the partial output is continued."""
        path = self.folder / name
        self._files.append(os.fdopen(files.own(path, os.O_RDWR | os.O_CREAT), "r+b"))
        return self._files[-1]

    def save(self, saved: Mapping[str, Any]) -> None:
        """Remember how far it is; the files are on the disk."""
        files.write_json(self.folder / STATE, {"call": self._call, "saved": saved})
        self.saved = saved

    def finish(self) -> None:
        """Have the answers, once they are on the disk, replace the output."""
        for file in self._files:
            file.close()
        self._files = []
        files.sync(self.folder / ANSWERS)
        (self.folder / STATE).unlink(missing_ok=True)  # it would be a state without its answers
        (self.folder / ANSWERS).replace(self.out)
        files.sync(self.out.parent)

    def _close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError, ValueError):
                file.close()
        self._files = []


@contextlib.contextmanager
def _locked(out: Path, folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, which is made if it is not there."""
    while True:
        _make(folder)
        try:
            descriptor = files.locked(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # its process has just finished
            continue
        except BlockingIOError:
            raise InputError(f"{out} is being written by another process: wait for it, or give another --out") from None
        try:
            yield
        finally:
            os.close(descriptor)
        return


def _make(folder: Path) -> None:
    """Make a folder for this user alone.

    Raises `InputError` if there is something else of that name, or where no folder can be made, such as in `/proc`.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        raise InputError(
            f"{folder} cannot be made, and partial results go there: give --out in another folder"
        ) from None
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise InputError(f"{folder}, where partial results go, is not a folder of yours: remove it")
