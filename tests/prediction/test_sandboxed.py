"""A model answers from a process of its own, in a sandbox; what it may not do, it does not."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import exported
import numpy as np
import psutil
import pytest
from waiting import until

from tapeline.prediction import sandboxed
from tapeline.prediction.sandboxed import Sandboxed
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.saved_models import operations

ONE = np.ones((1, 2), np.float32)


def descriptors():
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def model(tf, tmp_path):
    def make(function, **more):
        return exported.export(tf, tmp_path / "model", function, **more) / "saved_model"

    return make


def test_batches_of_all_sizes_by_several_threads_and_failures(tf, model):
    def serve(x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, "x is negative")]):
            half, text = tf.cast(x[:, 0], tf.bfloat16), tf.strings.as_string(tf.cast(x[:, 0], tf.int32))
            return {"y": 2 * x, "half": half, "text": text}

    before = descriptors()
    with Sandboxed(model(serve)) as answer:
        assert answer.outputs == {"y": "float32", "half": "bfloat16", "text": "string"} and answer.is_alive
        sizes = [3, 0, 1000, 1, 70_000, 17, 5]
        found = {}

        def ask(size):
            x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
            found[size] = answer({"x": x}, {"y", "half", "text"}), x

        threads = [threading.Thread(target=ask, args=(size,)) for size in sizes]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for size in sizes:
            answers, x = found[size]
            np.testing.assert_array_equal(answers["y"], 2 * x)
            assert answers["half"].dtype == np.float32 and len(answers["half"]) == size
            assert answers["text"].tolist() == [b"%d" % one for one in x[:, 0]]
        with pytest.raises(RunError, match="^the model fails on this batch: .*x is negative"):
            answer({"x": -ONE}, {"y"})
        assert list(answer({"x": ONE}, {"y"})) == ["y"]
        process = psutil.Process(answer._process.pid)
        folders = [Path(process.environ()["HOME"])]
        assert folders[0].is_dir()
    assert not process.is_running() and not folders[0].exists() and descriptors() <= before


HOSTILE = {
    "writes a file": ("WriteFile", lambda tf, file: lambda x: {"y": [tf.io.write_file(file, "mine"), x][1]}),
    "reads a file": ("ReadFile", lambda tf, file: lambda x: {"y": tf.fill(tf.shape(x), tf.io.read_file("/etc/passwd"))}),
    "opens the network": (
        "PrintV2",
        lambda tf, file: lambda x: {"y": [tf.print(x, output_stream="file://http://127.0.0.1:9"), x][1]},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "function"), HOSTILE.values(), ids=HOSTILE)
def test_a_model_that_does_more_than_compute_is_refused_before_it_is_loaded(tf, model, tmp_path, operation, function):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    with pytest.raises(InputError, match=f"^the model has the operation '{operation}' in the function '.*', which no"):
        with Sandboxed(model(function(tf, str(victim)))):
            pass
    assert victim.read_text() == "as it was"


@pytest.fixture
def lenient(tmp_path, monkeypatch):
    """The same programs, with a list of operations that reads and writes files: as if somebody had got around it."""
    package = Path(sandboxed.PROGRAM).parents[1]
    parts = (
        "prediction/answering.py",
        "runtime/saved_models",
        "runtime/imports.py",
        "runtime/arithmetic.py",
        "runtime/tensorflow_private.py",
    )
    for name in parts:
        target = tmp_path / "package" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (package / name).is_dir() else shutil.copy)(package / name, target)
    known = tmp_path / "package/runtime/saved_models/operations.py"
    known.write_text(known.read_text() + "\nALLOWED |= {'ReadFile', 'WriteFile'}\n")
    assert "ReadFile" not in operations.ALLOWED
    monkeypatch.setattr(sandboxed, "PROGRAM", tmp_path / "package/prediction/answering.py")


@pytest.mark.slow
@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("what", ["writes a file", "reads a file"])
def test_what_gets_past_the_list_is_held_by_the_kernel(tf, model, tmp_path, what):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    with Sandboxed(model(HOSTILE[what][1](tf, str(victim)))) as answer:
        if "Landlock" in answer.missing_protection:
            pytest.skip(answer.missing_protection)
        with pytest.raises(RunError, match="^the model fails on this batch: .*Permission denied"):
            answer({"x": ONE}, {"y"})
    assert victim.read_text() == "as it was"


@pytest.mark.slow
def test_a_process_that_is_killed_is_one_line(tf, model):
    with Sandboxed(model(lambda x: {"y": 2 * x})) as answer:
        assert answer({"x": ONE}, {"y"})["y"].tolist() == [[2, 2]]
        os.kill(answer._process.pid, signal.SIGKILL)
        with pytest.raises(RunError, match=r"^the model's process was killed \(SIGKILL\), perhaps for lack of"):
            answer({"x": ONE}, {"y"})
        assert not answer.is_alive


@pytest.mark.slow
def test_a_batch_in_hand_ends_when_the_process_is_killed(tf, model):
    def forever(x):
        count = tf.while_loop(lambda n: n < 10**15, lambda n: n + 1, [tf.constant(0, tf.int64)])[0]
        return {"y": x[:, 0] + tf.cast(count, tf.float32)}

    said = []

    def ask(answer):
        try:
            answer({"x": ONE}, {"y"})
        except RunError as error:
            said.append(str(error))

    with Sandboxed(model(forever)) as answer:
        thread = threading.Thread(target=ask, args=(answer,))
        thread.start()
        before = psutil.Process(answer._process.pid).cpu_times().user
        until(lambda: psutil.Process(answer._process.pid).cpu_times().user > before + 0.2, limit=60)
        answer.kill()
        thread.join(20)
        assert not thread.is_alive()
    assert said[0].startswith("the model's process was killed (SIGKILL)")


PROGRAMS = {
    "says no message": ("os.write(w, b'\\xff' * 99); time.sleep(60)", "^the model's process sent an invalid reply$"),
    "says nothing and ends": ("sys.exit('out of luck')", "^the model does not load or answer: out of luck$"),
    "is ended": ("os.kill(os.getpid(), 6)", "^the model's process was killed by SIGABRT$"),
    "is ended by a signal without a name": (
        "os.kill(os.getpid(), 35)",
        "^the model's process was killed by signal 35$",
    ),
    "names no outputs": (
        "say({'sandbox': ''}); time.sleep(60)",
        "^the model's process sent an invalid reply: 'outputs'$",
    ),
    "names no sandbox": (
        "say({'outputs': {}}); time.sleep(60)",
        "^the model's process sent an invalid reply: 'sandbox'$",
    ),
    "has a number for its outputs": (
        "say({'outputs': 5, 'sandbox': ''}); time.sleep(60)",
        "sent an invalid reply: 'int' ",
    ),
}


@pytest.mark.parametrize(("program", "said"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_process_that_was_taken_over(tmp_path, monkeypatch, program, said):
    monkeypatch.setattr(sandboxed, "PATIENCE", 0.5)
    monkeypatch.setattr(sandboxed, "PROGRAM", tmp_path / "a/b/program.py")
    (tmp_path / "a/b").mkdir(parents=True)
    sandboxed.PROGRAM.write_text(
        "import json, os, sys, time\n"
        "_, w, _, found = map(int, sys.argv[2].split(','))\n"
        "def say(what):\n"
        "    text = json.dumps(what).encode()\n"
        "    os.write(w, len(text).to_bytes(8, 'little') + text)\n"
        f"{program}\n"
    )
    with pytest.raises(RunError, match=said):
        with Sandboxed(tmp_path):
            pass


ANSWERS = {
    "more than there may be": {"need": 2**60},
    "room for less than nothing": {"need": -1},
    "an array that is not there": {"arrays": {"y": {"shape": [1], "at": 0, "dtype": "<f4"}}},
    "no arrays": {"arrays": 5},
    "nothing": {},
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_lies_ends_the_process(tmp_path, monkeypatch, answer):
    monkeypatch.setattr(sandboxed, "PROGRAM", tmp_path / "a/b/program.py")
    (tmp_path / "a/b").mkdir(parents=True)
    sandboxed.PROGRAM.write_text(
        "import json, os, sys, time\n"
        "channels = [list(map(int, one.split(','))) for one in sys.argv[2:]]\n"
        "def say(w, what):\n"
        "    text = json.dumps(what).encode()\n"
        "    os.write(w, len(text).to_bytes(8, 'little') + text)\n"
        "say(channels[0][1], {'outputs': {'y': 'float32'}, 'sandbox': ''})\n"
        f"for _, w, *_ in channels: say(w, {answer!r})\n"
        "time.sleep(60)\n"
    )
    with Sandboxed(tmp_path) as asked:
        with pytest.raises(RunError, match="^the model's process sent an invalid reply: "):
            asked({"x": ONE}, {"y"})
        until(lambda: not asked.is_alive, limit=60)


def test_memory_that_the_other_end_cannot_take_away():
    descriptor = sandboxed._memory()
    os.ftruncate(descriptor, 4096)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def test_what_the_kernel_lacks_is_one_line():
    assert sandboxed._missing_protection("network namespace, Landlock, seccomp") == ""
    assert sandboxed._missing_protection("seccomp") == (
        "the model ran in a sandbox without network namespace, Landlock, which this kernel does not support"
    )


KILLED = """
import os, signal, sys
from pathlib import Path
from tapeline.prediction.sandboxed import Sandboxed

with Sandboxed(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_scratch_folder_of_a_killed_process_goes_with_the_next_call(tf, model, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    folder = model(lambda x: {"y": 2 * x})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = (path for path in tmp_path.glob("tapeline-*/predict-*") if path.is_dir())
    with Sandboxed(folder) as answer:
        assert answer({"x": ONE}, {"y"})["y"].tolist() == [[2, 2]]
        assert not left.exists()


BESIDE_A_MODEL = (
    "prediction/answering.py",
    "registry/gate/probe.py",
    "export/check.py",
    "runtime/sandbox.py",
    "runtime/imports.py",
    "runtime/arithmetic.py",
    "runtime/tensorflow_private.py",
    "runtime/saved_models/standalone.py",
    "runtime/saved_models/graph.py",
    "runtime/saved_models/operations.py",
)


@pytest.mark.parametrize("file", BESIDE_A_MODEL)
def test_what_runs_beside_a_model_imports_nothing_of_tapeline(file):
    """An installed Tapeline, which may be another one, would be found; a project's own never is."""
    tree = ast.parse((Path(sandboxed.__file__).parents[1] / file).read_text())
    found = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert not [name for name in found if name.partition(".")[0] == "tapeline"]
