"""Files answered by a registered model: the command, and the flow on a running server. The model is a real one."""

import csv
import json
import os
import signal
import subprocess
import sys

import clones
import numpy as np
import pytest
from prefect.exceptions import ParameterTypeError
from pyarrow import parquet
from registries import TAPELINE, Registry, endless
from surroundings import below

from tapeline.config.project import Project
from tapeline.runtime import files

X = np.linspace(0, 1, 40, dtype=np.float32).reshape(20, 2)


@pytest.fixture(scope="module")
def registry(tf, tmp_path_factory):
    """The model y = x1 + x2, live in prod; `x.npy` has twenty examples."""
    made = Registry.make(tmp_path_factory.mktemp("inference") / "project")
    spec = tf.TensorSpec((None, 2), tf.float32, name="x")
    serve = tf.function(lambda x: {"y": tf.reduce_sum(x, 1)}, input_signature=[spec])
    tf.saved_model.save(tf.Module(), str(made.folder / "graph"), signatures=serve.get_concrete_function())
    made.build(2)
    made("registry", "register", "one")
    made("registry", "promote", "one", "prod")
    np.save(made.folder.parent / "x.npy", X)
    return made


def called(folder, server):
    """Return how Python is called in a folder."""
    environment = {**clones.environment(), "PYTHONPATH": f"{clones.ROOT}:{clones.ROOT / 'src'}"}
    environment |= {"PREFECT_API_URL": server, "PREFECT_HOME": os.environ["PREFECT_HOME"]}
    return {"cwd": folder, "env": environment, "text": True}


def python(folder, *arguments, server):
    command = [sys.executable, *arguments]
    return subprocess.run(command, **called(folder, server), capture_output=True, timeout=200, check=False)


@pytest.mark.slow
def test_the_command(registry):
    said = registry("predict", "one#prod", "../x.npy", "--out", "../y.jsonl", "--batch-size", "7").stdout
    assert said == "20 predictions by one@v1.0.0: ../y.jsonl\n"
    rows = [json.loads(line) for line in (registry.folder.parent / "y.jsonl").read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(20))
    np.testing.assert_allclose([row["y"] for row in rows], X.sum(1), atol=1e-6)
    table = list(csv.DictReader(registry("predict", "one", "../x.npy").stdout.splitlines()))
    assert [row["file"] for row in table] == ["../x.npy"] * 20
    np.testing.assert_allclose([float(row["y"]) for row in table], X.sum(1), atol=1e-6)


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("kept", ["none", "right", "altered"])
def test_a_project_that_nobody_may_write_answers_elsewhere(registry, tmp_path, kept):
    """By the copy of the model that is there, or else by a temporary one."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    models = registry.folder / ".tapeline" / "registry" / "models"
    files.discard(models)
    if kept != "none":
        registry("predict", "one#prod", "../x.npy", "--out", "../y.csv")
    if kept == "altered":
        next(models.rglob("saved_model.pb")).write_bytes(b"of another")
    program = 'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && ! touch x && exec "$@"'
    environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src"), "TMPDIR": str(tmp_path)}
    for command in (["predict", "one#prod"], ["infer", "--model", "one#prod"]):
        out = tmp_path / f"{command[0]}.csv"
        answer = subprocess.run(
            ["unshare", "-rm", "sh", "-c", program, "sh", *TAPELINE, *command, "../x.npy", "--out", str(out)],
            cwd=registry.folder, env=environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        assert len(out.read_text().splitlines()) == 21
    assert not list(tmp_path.rglob("saved_model"))


@pytest.mark.slow
def test_what_is_not_finite_is_noted(registry):
    np.save(registry.folder.parent / "nan.npy", np.float32([[1, 2], [np.nan, 1], [3, np.inf]]))
    said = registry("predict", "one#prod", "../nan.npy", "--out", "../z.jsonl").stderr
    assert said.splitlines()[-2:] == [
        "note: 2 of 3 examples have values that are not finite; the first one is number 1 of ../nan.npy",
        "note: 2 of 3 answers have values that are not finite; the first one is number 1 of ../nan.npy",
    ]


@pytest.mark.long
def test_other_kinds_of_files(registry, tmp_path):
    """Many small files, joined for the model and in order, as a table and as arrays."""
    (tmp_path / "some").mkdir()
    many = [f"{tmp_path}/some/{number}.npy" for number in range(1500)]
    for number, name in enumerate(many):
        np.save(name, np.float32([number, 0.5]))
    registry("predict", "one#prod", *many, "--out", f"{tmp_path}/y.npy", "--batch-size", "7")
    assert np.load(tmp_path / "y.npy").tolist() == [number + 0.5 for number in range(1500)]
    registry("predict", "one#prod", *many, "--out", f"{tmp_path}/y.parquet", "--outputs", "y")
    table = parquet.read_table(tmp_path / "y.parquet")
    assert table["file"].to_pylist() == many and set(table["row"].to_pylist()) == {0}
    assert table["y"].to_pylist() == [number + 0.5 for number in range(1500)]
    registry("predict", "one#prod", "../x.npy", "--out", f"{tmp_path}/y.npz")
    with np.load(tmp_path / "y.npz") as found:
        np.testing.assert_array_equal(found["y"], X.sum(1))
    answer = registry("predict", "one#prod", *many[:3], "--out", f"{tmp_path}/z.npz", "--outputs", "y,z", status=2)
    assert answer.stderr == "tapeline: --outputs has 'z', but the model's outputs are y: choose from these\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some", "y.npy", "y.npz", "y.parquet"]


@pytest.mark.long
def test_what_is_in_memory_does_not_grow_with_the_file(registry, tmp_path):
    """A file of 400 MB is answered with less than a quarter of it above what a small one takes."""
    array = np.lib.format.open_memmap(tmp_path / "big.npy", "w+", np.float32, (50_000_000, 2))
    array[-1] = 1, 2
    del array
    program = (
        "import re, sys, threading, time\n"
        "from pathlib import Path\n"
        "from tapeline.cli.main import main\n"
        "most = [0]\n"
        "def look():\n"
        "    while True:\n"
        "        said = re.search(r'RssAnon:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "        most[0] = max(most[0], int(said))\n"
        "        time.sleep(0.05)\n"
        "threading.Thread(target=look, daemon=True).start()\n"
        "assert main(sys.argv[1:]) == 0\n"
        "print(most[0])"
    )

    def needed(file):
        command = ("-c", program, "predict", "one#prod", str(file), "--out", str(tmp_path / "y.npy"))
        answer = python(registry.folder, *command, "--batch-size", "65536", server="")
        assert answer.returncode == 0, answer.stderr
        return int(answer.stdout.split()[-1])

    small, large = needed("../x.npy"), needed(tmp_path / "big.npy")
    assert np.load(tmp_path / "y.npy", mmap_mode="r")[-1] == 3
    assert large - small < 100_000, "kilobytes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("one#dev", "../x.npy"), "no version of one is in dev: promote one"),
        (("one", "../z.npy"), "../z.npy: no such file"),
        (
            ("one", "../x.npy", "--out", "../y.txt"),
            "--out is '../y.txt': its name must end in .csv, .jsonl, .parquet, .npy or .npz",
        ),
        (("one", "../x.npy", "--out", "../none/y.csv"), "its folder does not exist"),
        (("one", "../x.npy", "--batch-size", "0"), "--batch-size is 0: must be from 1 to 2147483647"),
    ],
)
def test_mistakes(registry, arguments, said):
    answer = registry("predict", *arguments, status=2)
    assert said in answer.stderr and answer.stderr.count("\n") == 1 and not answer.stdout


@pytest.mark.slow
def test_a_failure_in_the_middle_leaves_the_old_answers(registry):
    (registry.folder.parent / "bad.csv").write_text("x.0,x.1\n1,2\n1,a\n")
    (registry.folder.parent / "old.csv").write_text("old")
    answer = registry("predict", "one", "../bad.csv", "--out", "../old.csv", status=2)
    assert answer.stderr.splitlines()[-1] == "tapeline: ../bad.csv, line 3: x.1 is 'a', which is not a float32"
    assert (registry.folder.parent / "old.csv").read_text() == "old"
    assert not list(registry.folder.parent.glob(".*.partial"))


@pytest.mark.slow
def test_the_flow(registry, server):
    program = (
        "import sys; from flows.inference import inference\n"
        "print(inference('one#prod', ['../x.npy'], '../flow.csv'))\n"
        "assert 'tensorflow' not in sys.modules\n"
        "try: inference('two#prod', ['../x.npy'], '../flow.csv')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    answer = python(registry.folder, "-c", program, server=server)
    assert answer.stdout.splitlines() == [
        "20 predictions by one@v1.0.0: ../flow.csv",
        "InputError two has no version: `tapeline registry register two` creates one",
    ], answer.stderr
    assert len((registry.folder.parent / "flow.csv").read_text().splitlines()) == 21


@pytest.mark.parametrize("wrong", [{"out": "y\0.csv"}, {"files": ["x\0.npy"]}, {"model": "\0"}, {"outputs": "\0"}])
def test_what_no_command_could_be_given_is_refused(wrong):
    """It was a bare ValueError."""
    from tapeline.orchestration.flows.inference import inference

    given = {"model": "one", "files": ["a file's name\n"], "out": "y.csv"}
    inference.validate_parameters(given)
    with pytest.raises(ParameterTypeError):
        inference.validate_parameters(given | wrong)


TEXT = """
import tensorflow as tf

specs = [tf.TensorSpec((None,), tf.string, name="word"), tf.TensorSpec((None,), tf.int32, name="n")]

@tf.function(input_signature=specs)
def serve(word, n):
    said = tf.strings.join([word, tf.strings.as_string(n)])
    return {"said": said, "both": tf.stack([word, said], 1), "length": tf.strings.length(word, unit="UTF8_CHAR")}

tf.saved_model.save(tf.Module(), "graph", signatures=serve.get_concrete_function())
"""


@pytest.mark.slow
def test_text_in_and_out(tmp_path):
    """One word an example, from each kind of file, and text as the answer, in both."""
    made = Registry.make(tmp_path / "project")
    subprocess.run([sys.executable, "-c", TEXT], cwd=made.folder, check=True, capture_output=True)
    spec = {"inputs": {"word": {"dtype": "string", "shape": [None]}, "n": {"dtype": "int32", "shape": [None]}}}
    spec["outputs"] = {"said": {"dtype": "string", "shape": [None]}}
    make = made.folder / "make.py"
    lines = [
        f"    spec = {spec!r}" if line.startswith("    spec = ") else line for line in make.read_text().splitlines()
    ]
    make.write_text("\n".join(lines) + "\n")
    made.build(2)
    made("registry", "register", "one")
    words = ["ab", "ö, ü", ""]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["word", "n"], *zip(words, range(3), strict=True)])
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"word": word, "n": n}) for n, word in enumerate(words)))
    np.savez(tmp_path / "a.npz", word=np.array(words), n=np.arange(3))
    wanted = [(f"{word}{n}", [word, f"{word}{n}"], len(word)) for n, word in enumerate(words)]
    given = [f"../a.{kind}" for kind in ("csv", "jsonl", "npz")]
    made("predict", "one", *given, "--out", "../out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["said"], row["both"], row["length"]) for row in rows] == wanted * 3
    found = list(csv.DictReader(made("predict", "one", *given).stdout.splitlines()))
    assert [(row["said"], [row["both.0"], row["both.1"]], int(row["length"])) for row in found] == wanted * 3


NOWHERE = "http://127.0.0.1:9/api"


def test_the_flow_s_help_needs_no_prefect(tmp_path):
    answer = python(tmp_path, "-X", "importtime", "-m", "flows.inference", "--help", server=NOWHERE)
    assert answer.returncode == 0 and "--model NAME[@V|#STAGE]" in answer.stdout
    assert not [line for line in answer.stderr.splitlines() if line.split()[-1] in ("prefect", "tensorflow")]


def test_the_flow_s_command_outside_a_project(tmp_path):
    answer = python(tmp_path, "-m", "flows.inference", "--model", "one", "--out", "y.csv", "x.npy", server=NOWHERE)
    assert answer.returncode == 2 and answer.stderr.startswith("inference: no params.yaml in "), answer.stderr


@pytest.mark.long
def test_the_flow_s_command(registry, server):
    command = ("-m", "flows.inference", "--model", "one#prod", "--out", "../command.csv")
    answer = python(registry.folder, *command, "../x.npy", server=server)
    assert (answer.returncode, answer.stdout) == (0, "20 predictions by one@v1.0.0: ../command.csv\n"), answer.stderr
    (registry.folder.parent / "command.csv").unlink()
    answer = python(registry.folder, *command, "../x.npy", server="")
    assert (answer.returncode, answer.stdout) == (0, "20 predictions by one@v1.0.0: ../command.csv\n"), answer.stderr
    assert not (registry.folder / ".tapeline/prefect").exists()
    answer = python(registry.folder, *command, "../x.npy", server=NOWHERE)
    assert answer.returncode == 1 and "Traceback" not in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith(f"inference: Failed to reach API at {NOWHERE}/: start that server")
    answer = python(registry.folder, *command, "../z.npy", server=NOWHERE)
    assert (answer.returncode, answer.stderr) == (2, "inference: ../z.npy: no such file\n")


@pytest.fixture
def endless_run(tf, registry, server, ask, until, tmp_path):
    """A run that answers for ever: its project, its process and what the server knows of it."""
    slow = registry.copy(tmp_path)
    endless(tf, slow)
    slow.build(3)
    slow("registry", "register", "one")
    before = {run["id"] for run in ask("flow_runs", {})}
    command = [sys.executable, "-m", "flows.inference", "--model", "one", "--out", "../never.csv", "../x.npy"]
    with subprocess.Popen(command, **called(slow.folder, server), stderr=subprocess.PIPE) as child:
        try:
            until(lambda: [found for found in below(slow.folder) if "predict" in found.info["cmdline"]], limit=200)
            [run] = [run for run in ask("flow_runs", {}) if run["id"] not in before]
            yield Project.find(slow.folder), child, run
        finally:
            child.kill()


@pytest.mark.slow
def test_a_run_that_is_cancelled_ends(endless_run, api, tmp_path):
    """It answered to its end with exit status 0, and stayed Cancelling."""
    project, child, run = endless_run
    api("POST", f"/flow_runs/{run['id']}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    _, err = child.communicate(timeout=100)
    assert child.returncode == 128 + signal.SIGTERM and "Traceback" not in err, err
    assert err.splitlines()[-1] == "inference: cancelled in Prefect; run again to resume"
    assert api("GET", f"/flow_runs/{run['id']}")["state_type"] == "CANCELLED"
    assert not below(project.folder) and not (tmp_path / "never.csv").exists()


@pytest.mark.slow
def test_a_run_that_is_killed_is_marked(endless_run, is_marked_when_killed, until):
    """It stayed Running for good."""
    project, child, run = endless_run
    assert is_marked_when_killed(project, child, run)
    until(lambda: not below(project.folder))
