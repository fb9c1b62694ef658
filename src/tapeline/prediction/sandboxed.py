"""A SavedModel in a process of its own, in a sandbox: the model may be anybody's.

with Sandboxed(folder) as answer:
    answers = answer({"image": images}, {"class"})
"""

import contextlib
import fcntl
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from tapeline.prediction import answering
from tapeline.prediction.answering import Channel, Closed, Memory
from tapeline.prediction.outputs import Answers
from tapeline.runtime import exit_status, interpreter, leash, sandbox, scratch
from tapeline.runtime.errors import InputError, RunError, graph_reason

PROGRAM = Path(answering.__file__)
WORKERS = 2
"""Batches that are answered at once: a small model leaves cores idle between its operations."""
FILE_BYTES = 2**26
"""The size of a file that the process may write."""
MAX_ANSWER = 2**33
"""Bytes of the answers to one batch."""
OUTPUT_BYTES = 2**15
"""Bytes that are kept of what the process prints."""
PROTECTIONS = ("network namespace", "Landlock", "seccomp")
"""What a sandbox may consist of, as `runtime/sandbox.py` names it."""
OOM_SCORE = 1000
"""What the kernel is told of the process: when memory runs out, it is the first to go."""
PATIENCE = 5.0
"""Seconds that a process which says no more has to end."""
ADD_SEALS, SEAL_SEAL, SEAL_SHRINK = 1033, 1, 2


class Sandboxed:
    """A loaded model; for several threads. Ends with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self.outputs: dict[str, str] = {}
        """Output → dtype."""
        self.missing_protection = ""
        """The sandbox protections that this kernel lacks, in one line; empty if none."""

    def __enter__(self) -> "Sandboxed":
        """Start the process, and wait until the model is loaded. Raises `InputError` for one that may not be."""
        with ExitStack() as stack:
            self._start(stack.enter_context(scratch.folder("predict")), stack)
            try:
                reply = self._channels[0].receive()
            except Closed:
                raise self._failure() from None
            if "refused" in reply:
                raise InputError(f"the model {reply['refused']}")
            if "error" in reply:
                raise RunError(f"the model does not load: {graph_reason(str(reply['error']))}")
            try:
                self.outputs = {str(name): str(dtype) for name, dtype in dict(reply["outputs"]).items()}
                self.missing_protection = _missing_protection(str(reply["sandbox"]))
            except (KeyError, TypeError, ValueError) as error:
                raise RunError(f"the model's process sent an invalid reply: {error}") from None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process can answer."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once; whoever waits for an answer is told so."""
        self._process.kill()

    def __call__(self, batch: Mapping[str, Any], wanted: Collection[str]) -> Answers:
        """Return the wanted outputs for a batch, by name."""
        channel = self._free.get()
        try:
            entries, parts, size = answering.layout(batch)
            channel.given.grow(size)
            answering.write(channel.given.bytes, parts)
            channel.send({"arrays": entries, "wanted": sorted(wanted)})
            reply = channel.receive()
            if "need" in reply:
                _grow(channel, reply["need"])
                reply = channel.receive()
            if "error" in reply:
                raise RunError(f"the model fails on this batch: {graph_reason(str(reply['error']))}")
            asked = {name: entry for name, entry in dict(reply["arrays"]).items() if name in wanted}
            return answering.read(channel.found.bytes, asked, copied=True)
        except Closed:
            raise self._failure() from None
        except (KeyError, TypeError, ValueError) as error:
            self.kill()  # what it says next could be taken for the answer to something else
            raise RunError(f"the model's process sent an invalid reply: {error}") from None
        finally:
            self._free.put(channel)

    def _start(self, home: Path, stack: ExitStack) -> None:
        ends: list[tuple[int, int, int, int]] = []
        self._channels, self._free = list[Channel](), queue.SimpleQueue[Channel]()
        for _ in range(WORKERS):
            (request_in, request_out), (reply_in, reply_out) = os.pipe(), os.pipe()
            given, found = _memory(), _memory()
            for mine in (request_out, reply_in, given, found):
                stack.callback(os.close, mine)
            ends.append((request_in, reply_out, given, found))
            self._channels.append(Channel(reply_in, request_out, given, found))
            self._free.put(self._channels[-1])
        try:
            self._process = stack.enter_context(_started(self._folder, home, ends))
        finally:
            for request_in, reply_out, *_ in ends:
                os.close(request_in)
                os.close(reply_out)
        self._printed = deque[bytes](maxlen=OUTPUT_BYTES // 2**10)
        assert self._process.stdout, "it was asked for"
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._listener.start()
        stack.callback(self._end)
        with contextlib.suppress(OSError):
            Path(f"/proc/{self._process.pid}/oom_score_adj").write_text(str(OOM_SCORE), encoding="utf-8")

    def _end(self) -> None:
        self._process.kill()
        self._listener.join(PATIENCE)
        for channel in self._channels:
            channel.given, channel.found = Memory(-1), Memory(-1)  # a mapping keeps its file open

    def _listen(self, printed: IO[bytes]) -> None:
        with contextlib.suppress(ValueError, OSError):  # closed at the end
            while part := os.read(printed.fileno(), 2**10):
                self._printed.append(part)

    def _failure(self) -> RunError:
        """Return why the process is gone."""
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return RunError("the model's process sent an invalid reply")
        self._listener.join(1)
        lines = b"".join(self._printed).decode("utf-8", errors="replace").strip().splitlines()
        if status == -signal.SIGKILL:
            return RunError(
                "the model's process was killed (SIGKILL), perhaps for lack of memory: use a smaller --batch-size, or "
                "free some memory"
            )
        if status < 0:
            return RunError(f"the model's process was killed by {exit_status.signal_name(-status)}")
        return RunError(f"the model does not load or answer: {lines[-1] if lines else f'status {status}'}")


def _grow(channel: Channel, size: Any) -> None:
    """Make room for an answer. Raises `ValueError` for one that is too large."""
    if not (type(size) is int and 0 <= size <= MAX_ANSWER):
        raise ValueError(f"{size} bytes for one batch, more than {MAX_ANSWER:,}")
    channel.found.grow(size)
    channel.send({})


def _memory() -> int:
    """Return a descriptor of shared memory that cannot shrink: to read what was cut off would end this process."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
    descriptor = os.memfd_create("batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(descriptor, ADD_SEALS, SEAL_SHRINK | SEAL_SEAL)
    return descriptor


def _started(folder: Path, home: Path, ends: list[tuple[int, int, int, int]]) -> "subprocess.Popen[bytes]":
    read = (str(PROGRAM.parents[1]), str(folder), *interpreter.packages())
    rules = sandbox.Rules(read=read, folder=str(home), file_bytes=FILE_BYTES)
    program = interpreter.isolated(str(PROGRAM), str(folder))
    return subprocess.Popen(
        [
            *leash.launcher(signal.SIGKILL),
            *sandbox.command(rules),
            *program,
            *(",".join(map(str, four)) for four in ends),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=sandbox.environment(home, TF_CPP_MIN_LOG_LEVEL="2"),
        pass_fds=[descriptor for four in ends for descriptor in four],
        process_group=0,  # a Ctrl-C is for this process, which then ends that one
    )


def _missing_protection(used: str) -> str:
    """Return the sandbox protections that this kernel lacks; empty if none."""
    missing = [name for name in PROTECTIONS if name not in used.split(", ")]
    return (
        f"the model ran in a sandbox without {', '.join(missing)}, which this kernel does not support"
        if missing
        else ""
    )
