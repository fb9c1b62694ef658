"""`tapeline predict` as a process, killed and called again: the finished file has the bytes of an uninterrupted run."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import clones
import exported
import numpy as np
import psutil
import pytest
from waiting import until

ROWS = 20_000
PROGRAM = """
import sys
from tapeline.prediction import columns, run
columns.GROUP_ROWS = 700
run.SAVED_EVERY = float(sys.argv.pop(1))
from tapeline.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tf, tmp_path_factory):
    """A model, and files of each kind."""
    made = tmp_path_factory.mktemp("resuming")

    def serve(x):
        return {"y": tf.math.sin(x), "n": tf.cast(x[:, 0] * 1000, tf.int32), "t": tf.strings.as_string(x[:, 1])}

    exported.export(tf, made / "model", serve)
    exported.export(tf, made / "other", lambda x: {**serve(x), "y": tf.math.cos(x)})
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
    np.save(made / "x.npy", x)
    np.savez(made / "x.npz", x=x)
    (made / "x.csv").write_text("x.0,x.1\n" + "".join(f"{a!r},{b!r}\n" for a, b in x.tolist()))
    (made / "x.jsonl").write_text("".join(json.dumps({"x": row}) + "\n" for row in x.tolist()))
    for number in range(300):
        np.save(made / f"s{number}.npy", x[number : number + number % 5 + 1])
    return made


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def started(folder, *arguments, every=0.0):
    (folder / "tmp").mkdir(exist_ok=True)
    environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src"), "TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(every), "predict", *map(str, arguments)],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ran(folder, *arguments, status=0):
    process = started(folder, *arguments, every=1000)
    out, err = process.communicate(timeout=200)
    assert process.returncode == status, err
    return out, err


def saved(folder, out):
    """Return how many examples are saved of an output."""
    try:
        return json.loads((folder / f".{out}.partial/state.json").read_text())["saved"]["examples"]
    except (FileNotFoundError, NotADirectoryError):
        return 0


def killed(folder, out, *arguments, after, how=signal.SIGKILL):
    """Start, and kill once more examples than `after` are saved; wait for the model's process to be gone, too."""
    process = started(folder, *arguments)
    until(lambda: saved(folder, out) > after or process.poll() is not None, limit=100)
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    time.sleep(random.random() / 20)
    process.send_signal(how)
    said = process.communicate(timeout=30)[1]
    until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), limit=60)
    return process.returncode, said


def arguments(form, name):
    """Return the command; `npy` holds one output, and arrays no text."""
    some = {"npy": ["--outputs", "y"], "npz": ["--outputs", "y,n"]}.get(form, [])
    small = [f"s{number}.npy" for number in range(300)]
    return ["./model", *small[:150], name, *small[150:], "--batch-size", 16, *some]


@pytest.mark.in_ci(1)
@pytest.mark.parametrize(
    ("form", "name"), [("jsonl", "x.npy"), ("npz", "x.npy"), ("csv", "x.csv"), ("npy", "x.jsonl"), ("parquet", "x.npz")]
)
def test_killed_again_and_again_at_random_it_finishes_with_the_same_bytes(folder, form, name):
    given, out = arguments(form, name), f"{form}-{name}.{form}"
    ran(folder, *given, "--out", f"whole.{form}")
    at, stops = 0, 0
    for _ in range(2):
        status, _ = killed(folder, out, *given, "--out", out, after=at)
        at = saved(folder, out)
        stops += status == -signal.SIGKILL
    assert stops >= 1 and not (folder / out).exists()
    said = ran(folder, *given, "--out", out)
    total = ROWS + sum(number % 5 + 1 for number in range(300))
    assert said[0] == f"{total} predictions by model: {out}\n"
    assert f"note: {out}: resuming after {at:,} examples" in said[1]
    assert (folder / out).read_bytes() == (folder / f"whole.{form}").read_bytes()
    assert not (folder / f".{out}.partial").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_and_keeps_what_is_saved(folder, how):
    given, out = ["./model", "x.npy", "--batch-size", 16], f"{how.name}.csv"
    status, said = killed(folder, out, *given, "--out", out, after=0, how=how)
    assert status == 128 + how
    lines = said.splitlines()
    assert lines[-1] == f"tapeline: stopped by {how.name}" and "predictions are kept: the same command" in lines[-2]
    left = [path for path in (folder / "tmp").rglob("*") if path.name != f"tapeline-{os.geteuid()}"]
    assert left == []
    state = json.loads((folder / f".{out}.partial/state.json").read_text())
    assert state.keys() == {"call", "saved"}, "other versions read it"
    assert state["saved"].keys() == {"examples", "pieces", "odd", "writer"}
    at = saved(folder, out)
    assert f"{out}: resuming after {at:,} examples" in ran(folder, *given, "--out", out)[1]


CHANGES = {
    "model": lambda folder: ["./other", "x2.npy", "--batch-size", 16],
    "outputs": lambda folder: ["./model", "x2.npy", "--batch-size", 16, "--outputs", "y"],
    "batch size": lambda folder: ["./model", "x2.npy", "--batch-size", 17],
    "input files": lambda folder: ["./model", "x2.npy", "--batch-size", 16],
}


@pytest.mark.in_ci(1)
@pytest.mark.parametrize("what", CHANGES)
def test_another_call_never_continues_a_partial_output(folder, what):
    x = np.load(folder / "x.npy")
    np.save(folder / "x2.npy", x)
    given, out = ["./model", "x2.npy", "--batch-size", 16], f"{what.replace(' ', '')}.csv"
    killed(folder, out, *given, "--out", out, after=500)
    assert saved(folder, out)
    if what == "input files":  # of the same size, with the same time
        before = (folder / "x2.npy").stat()
        np.save(folder / "x2.npy", x[::-1])
        os.utime(folder / "x2.npy", ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = CHANGES[what](folder)
    assert (
        f"note: {out}: found partial results of a different call ({what}); starting over"
        in ran(folder, *changed, "--out", out)[1]
    )
    ran(folder, *changed, "--out", "fresh.csv")
    assert (folder / out).read_bytes() == (folder / "fresh.csv").read_bytes()


def rewritten(file):
    with file.open("r+b") as opened:
        opened.seek(-8, os.SEEK_END)
        opened.write(bytes(8))


@pytest.mark.in_ci(1)
@pytest.mark.parametrize("change", [rewritten, lambda file: os.truncate(file, 2**12), lambda file: file.unlink()])
@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_an_input_that_changes_while_it_is_read(folder, change, kind):
    file, out = folder / f"x3.{kind}", "changed.csv"
    file.write_bytes((folder / f"x.{kind}").read_bytes())
    process = started(folder, "./model", file.name, "--batch-size", 16, "--out", out)
    until(lambda: saved(folder, out) > 0 or process.poll() is not None, limit=100)
    change(file)
    said = process.communicate(timeout=100)[1]
    assert process.returncode == 2, said
    assert said == f"tapeline: {file.name} changed while it was read: run again once nothing writes to it\n"
    assert not [name for name in names(folder) if out in name]


@pytest.mark.long
def test_a_partial_output_that_was_cut_starts_over(folder):
    given = ["./model", "x.npy", "--batch-size", 16, "--out"]
    killed(folder, "cut.csv", *given, "cut.csv", after=500)
    os.truncate(folder / ".cut.csv.partial/answers", 10)
    assert "note: cut.csv: found damaged partial results; starting over" in ran(folder, *given, "cut.csv")[1]
    ran(folder, *given, "uncut.csv")
    assert (folder / "cut.csv").read_bytes() == (folder / "uncut.csv").read_bytes()


def test_the_model_s_process_is_killed(folder):
    process = started(folder, "./model", "x.npy", "--batch-size", 16, "--out", "gone.csv")
    until(lambda: saved(folder, "gone.csv") > 0, limit=100)
    (child,) = psutil.Process(process.pid).children()
    child.kill()
    said = process.communicate(timeout=60)[1].splitlines()
    assert process.returncode == 1 and said[-1].startswith("tapeline: the model's process was killed (SIGKILL)")
    assert "predictions are kept" in said[-2]
    assert "gone.csv: resuming after" in ran(folder, "./model", "x.npy", "--batch-size", 16, "--out", "gone.csv")[1]


@pytest.mark.long
def test_an_output_for_each_file_and_a_bad_one_costs_no_other_its_answers(folder):
    (folder / "answers").mkdir()
    (folder / "bad.csv").write_text("x.0,x.1\n1,2\n1,a\n")
    (folder / "s0.txt").write_text("")
    given = ["s0.npy", "bad.csv", "s1.npy", "none.npy", "s0.txt", "s2.npy"]
    out, err = ran(folder, "./model", *given[:-2], "s2.npy", "--out", "answers/{name}.csv", status=2)
    assert out == "6 predictions for 3 of 5 files by model: answers/{name}.csv\n"
    assert err.splitlines() == [
        "tapeline: bad.csv, line 3: x.1 is 'a', which is not a float32",
        "tapeline: none.npy: no such file",
        "tapeline: 2 of 5 files failed: bad.csv, line 3: x.1 is 'a', which is not a float32",
    ]
    assert names(folder / "answers") == ["s0.csv", "s1.csv", "s2.csv"]
    ran(folder, "./model", "s1.npy", "--out", "alone.csv")
    assert (folder / "answers/s1.csv").read_bytes() == (folder / "alone.csv").read_bytes()
    assert ran(folder, "./model", "s0.npy", "--out", "{nam}.csv", status=2)[1] == (
        "tapeline: --out has {nam}: the only placeholder is {name}\n"
    )
    for files, said in (
        (
            ["s0.npy", "./s0.npy"],
            "--out is 'answers/s0.csv' for both s0.npy and s0.npy: predict one with another --out",
        ),
        (
            ["x.npy", "x.csv"],
            "--out is 'answers/x.csv' for both x.npy and x.csv: predict one with another --out",
        ),
    ):
        assert said in ran(folder, "./model", *files, "--out", "answers/{name}.csv", status=2)[1]
    said = "tapeline: --out is 's1.npy', which is also an input: give another name\n"
    assert ran(folder, "./model", "s0.npy", "s1.npy", "--out", "{name}.npy", status=2)[1] != ""
    assert ran(folder, "./model", "s1.npy", "--outputs", "y", "--out", "s1.npy", status=2)[1] == said


def test_a_model_that_may_not_run_is_one_line_for_all_files(tf, folder, tmp_path):
    hostile = exported.export(tf, tmp_path / "hostile", lambda x: {"y": tf.fill(tf.shape(x), tf.io.read_file("a"))})
    err = ran(folder, str(hostile), "s0.npy", "s1.npy", "--out", f"{tmp_path}/{{name}}.csv", status=2)[1]
    assert err.startswith("tapeline: the model has the operation 'ReadFile' in the function") and err.count("\n") == 1
    assert names(tmp_path) == ["hostile"]


def test_a_folder_that_is_no_model(folder, tmp_path):
    assert "lacks model.json or saved_model" in ran(folder, f"{tmp_path}/", "s0.npy", status=2)[1]
    for name, content in (("model.json", b"{}"), ("saved_model/saved_model.pb", b"other")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert "is not a description of a model" in ran(folder, f"{tmp_path}/", "s0.npy", status=2)[1]
    described = json.loads((folder / "model/model.json").read_text())
    described["files"] = {"saved_model/saved_model.pb": "0" * 64}
    (tmp_path / "model.json").write_text(json.dumps(described))
    assert "are not those that its model.json lists" in ran(folder, f"{tmp_path}/", "s0.npy", status=2)[1]
