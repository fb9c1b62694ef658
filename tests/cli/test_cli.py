"""The command line as a process: fast answers, one line for what is wrong, nothing lost."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
import recipes
import waiting
from PIL import Image
from ruamel.yaml import YAML

from tapeline.cli import main
from tapeline.cli.flows import inference, promotion, sweep, training
from tapeline.runtime import processes

ROOT = Path(__file__).resolve().parents[2]
WATCH = "import sys, atexit\natexit.register(lambda: print('TENSORFLOW' if 'tensorflow' in sys.modules else 'LIGHT'))\n"


class Folder:
    """A project folder, and `tapeline` called in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = {"source": "table", "needs": "points.csv", "features": {"x": ["x1", "x2"], "y": ["y"]}}
        train = {"epochs": 2, "batch_size": 8}
        pipeline = {"dataset": "points", "recipe": "recipe.py", "needs": "data/points", "train": train}
        pipeline["params"] = {"learning_rate": 1e-4}
        pipeline |= {"validate": {"thresholds": {"loss": {"max": 1e6}}}, "export": {}}
        self.params = {"datasets": {"points": source}, "pipelines": {"fit": pipeline}}
        rows = ["x1,x2,y,split", *(f"{n},{n + 1},{2 * n + 1},{('train', 'val', 'test')[n % 3]}" for n in range(30))]
        (folder / "points.csv").write_text("\n".join(rows))
        source["split"] = "split"
        recipes.write(folder)
        self.save()

    def save(self) -> None:
        with (self.folder / "params.yaml").open("w") as file:
            YAML().dump(self.params, file)

    def call(self, *arguments: str, check: bool = False) -> subprocess.CompletedProcess:
        program = WATCH + "from tapeline.cli.main import main\nsys.exit(main())"
        (self.folder / ".call.py").write_text(program)
        return subprocess.run(
            [sys.executable, self.folder / ".call.py", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
        )

    def outcome(self, stage: str, name: str) -> dict:
        return json.loads((self.folder / ".tapeline" / "outcome" / f"{stage}@{name}.json").read_text())


@pytest.fixture
def project(tmp_path):
    return Folder(tmp_path)


def refused(answer, said, *, light=True):
    """Assert one line on the standard error, exit status 2, and whether TensorFlow was imported for it."""
    assert answer.returncode == 2, answer.stderr
    lines = answer.stderr.splitlines()
    assert len(lines) == 1, answer.stderr
    assert lines[0].startswith("tapeline: ")
    assert said in lines[0]
    assert answer.stdout.splitlines()[-1] == ("LIGHT" if light else "TENSORFLOW")


def parsers(parser):
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_help_calls_a_default_by_its_name():
    flows = [flow._parser("tapeline") for flow in (training, sweep, promotion, inference)]
    found = [action for top in (main._parser(), *flows) for parser in parsers(top) for action in parser._actions]
    shown = [action.help for action in found if "%(default)" in (action.help or "")]
    assert len(shown) > 12
    assert [text for text in shown if "(default: %(default)" not in text] == []


def test_help_explains_each_argument():
    flows = [flow._parser("tapeline") for flow in (training, sweep, promotion, inference)]
    found = [parser for top in (main._parser(), *flows) for parser in parsers(top)]
    silent = [
        (parser.prog, action.dest)
        for parser in found
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert silent == []


def test_help_and_list_need_no_tensorflow(project):
    for arguments in (["--help"], ["--version"], ["train", "--help"], ["list"]):
        answer = project.call(*arguments)
        assert answer.returncode == 0
        assert answer.stdout.splitlines()[-1] == "LIGHT"
    row = project.call("list").stdout.splitlines()[1]
    assert re.split(r" {2,}", row) == ["fit", "points", "no", "no DVC project here", "A line."]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "fat"], "no pipeline 'fat' in params.yaml; did you mean 'fit'?"),
        (["validate", "zz"], "no pipeline 'zz' in params.yaml; choose from fit"),
        (["export", ""], "no pipeline '' in params.yaml"),
        (["ingest", "fit"], "no dataset 'fit' in params.yaml; choose from points"),
        (["train", "fit"], "data/points/dataset.json is missing: run `tapeline ingest points`"),
        (["validate", "fit"], "data/points/dataset.json is missing: run `tapeline ingest points`"),
        (["export", "fit"], "verdict.json is missing: run `tapeline validate fit`"),
    ],
)
def test_unknown_names_and_missing_inputs(project, arguments, said):
    refused(project.call(*arguments), said)


def unheard(command, folder):
    """Start a command to whose stderr nobody listens."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=writer,
            text=True,
        )
    finally:
        os.close(writer)


def test_a_failure_that_nobody_hears_has_its_exit_status(project):
    with unheard(["-m", "tapeline", "train", "fat"], project.folder) as process:
        assert process.wait(60) == 2


LEAVING = """
import time
from pathlib import Path
from tapeline.cli import prediction, stages
from tapeline.runtime.interruption import interruptible
leave = {"stage": lambda interrupted: stages._leave(Path("outcome.json"), interrupted), "predict": prediction._leave}
with interruptible(leave[%r], grace=0):
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except BaseException:
            pass
"""


@pytest.mark.parametrize("what", ["stage", "predict"])
def test_a_signal_ends_what_nobody_hears(tmp_path, what):
    with unheard(["-c", LEAVING % what], tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        try:
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert what == "predict" or json.loads((tmp_path / "outcome.json").read_text())["outcome"] == "interrupted"


def test_a_wrong_pipeline_stands_in_the_way_of_itself_alone(project):
    project.params["pipelines"]["wrong"] = {**project.params["pipelines"]["fit"], "train": {"epochs": 0}}
    project.save()
    refused(project.call("train", "wrong"), "pipelines.wrong.train.epochs is 0")
    refused(project.call("train", "fit"), "data/points/dataset.json is missing")
    for arguments, lines in ((["list"], ["pipeline ", "fit "]), (["list", "--targets"], ["export@fit"])):
        answer = project.call(*arguments)
        assert answer.returncode == 2 and "pipelines.wrong" not in answer.stdout
        assert all(line.startswith(start) for line, start in zip(answer.stdout.splitlines(), lines, strict=False))
        assert answer.stderr.startswith("tapeline: left out: params.yaml: pipelines.wrong.train.epochs is 0: must be")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda p: p["pipelines"]["fit"]["params"].update(learning_rate=-1),
            "learning_rate is -1: must be greater than 0",
        ),
        (lambda p: p["pipelines"]["fit"]["params"].update(rate=1), "params.rate: no such setting"),
        (lambda p: p["pipelines"]["fit"].update(recipe="nowhere.py"), "nowhere.py does not exist; "),
        (lambda p: p["pipelines"]["fit"]["train"].update(epochs="ten"), 'train.epochs is "ten": must be'),
        (lambda p: p.update(environment={"keras": "3"}), "environment is from an older Tapeline: `tapeline upgrade`"),
        (lambda p: p.pop("datasets"), "datasets is missing"),
    ],
)
def test_wrong_parameters_are_said_before_tensorflow(project, change, said):
    change(project.params)
    project.save()
    refused(project.call("train", "fit"), said)
    assert project.outcome("train", "fit")["outcome"] == "input"
    assert not (project.folder / "runs").exists()


def test_weights_whose_changes_dvc_would_not_see_are_refused_before_training(project):
    weights = "runs/other/train/weights"
    (project.folder / weights).mkdir(parents=True)
    entry = project.params["pipelines"]["fit"]
    entry["train"]["init_from"] = weights
    project.save()
    refused(project.call("train", "fit"), f"train.init_from is '{weights}', whose changes DVC would not see: set `need")
    entry["needs"] = "runs/other"
    project.save()
    refused(project.call("train", "fit"), "data/points/dataset.json is missing")


@pytest.mark.slow
def test_a_split_that_validate_needs_is_missed_before_training(project):
    x = np.ones((16, 2), np.float32)
    columns = {"x": x, "y": x[:, :1]}
    datasets.write(project.folder / "data" / "points", {"train": columns, "val": columns})
    refused(project.call("train", "fit"), "validate.split is 'test': ")
    project.params["pipelines"]["fit"]["validate"]["split"] = "val"
    project.save()
    project.call("train", "fit", check=True)


@pytest.mark.slow
def test_a_threshold_on_what_is_not_measured_is_missed_before_training(project):
    project.call("ingest", "points", check=True)
    thresholds = project.params["pipelines"]["fit"]["validate"]["thresholds"]
    thresholds["los"] = thresholds.pop("loss")
    project.save()
    said = (
        "validate.thresholds names 'los', which is not measured: choose from loss, mean_absolute_error, r2, root_mean_"
    )
    refused(project.call("train", "fit"), said, light=False)


@pytest.mark.slow
def test_a_threshold_that_one_example_cannot_meet_is_missed_before_training(project):
    x = np.ones((16, 2), np.float32)
    columns = {"x": x, "y": x[:, :1]}
    one = {name: values[:1] for name, values in columns.items()}
    datasets.write(project.folder / "data" / "points", {"train": columns, "val": columns, "test": one})
    project.params["pipelines"]["fit"]["validate"]["thresholds"] = {"r2": {"min": 0.5}}
    project.save()
    said = "validate.thresholds names 'r2', which is not measured with one example: choose from "
    refused(project.call("train", "fit"), said, light=False)


def test_answers_cannot_be_a_folder(project):
    (project.folder / "y.csv").mkdir()
    refused(project.call("predict", "fit", "x.npy", "--out", "y.csv"), "--out is 'y.csv', a folder: give the name of")


@pytest.mark.parametrize(("name", "pattern"), [("a [1]", "["), ("a\\b", "\\")])
def test_a_folder_whose_name_is_a_pattern_to_tensorflow(tmp_path, name, pattern):
    (tmp_path / name).mkdir()
    refused(
        Folder(tmp_path / name).call("ingest", "points"),
        f"{name} contains a {pattern}, which TensorFlow reads as a file pattern: rename",
    )


def test_a_checkout_whose_path_python_cannot_find_code_by(tmp_path):
    """It started itself again without end, with one more copy of the path each time."""
    package = tmp_path / "a:b/src/tapeline"
    package.mkdir(parents=True)
    (package / "__main__.py").touch()
    subprocess.run("git init -q && git add .", shell=True, cwd=tmp_path / "a:b", check=True)
    refused(
        Folder(tmp_path / "a:b").call("list"), "a:b/src contains a :, which PYTHONPATH cannot hold: rename the folder"
    )


def test_no_project_folder(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-m", "tapeline", "list"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith("tapeline: no params.yaml in ")


@pytest.mark.slow
def test_the_four_stages_and_what_they_leave(project):
    for stage, name in (("ingest", "points"), ("train", "fit"), ("validate", "fit"), ("export", "fit")):
        answer = project.call(stage, name)
        assert answer.returncode == 0, answer.stderr
        assert project.outcome(stage, name)["outcome"] == "ok"
        assert "oneDNN" not in answer.stderr
    made = {p.relative_to(project.folder).as_posix() for p in project.folder.rglob("*") if p.is_file()}
    assert made >= {
        "runs/fit/train/run.json",
        "runs/fit/train/history.csv",
        "runs/fit/train/metrics.json",
        "runs/fit/train/weights/weights.index",
        "runs/fit/validate/metrics.json",
        "runs/fit/validate/verdict.json",
        "runs/fit/validate/predictions.npz",
        "runs/fit/environment.json",
        "models/fit/model.json",
        "models/fit/saved_model/saved_model.pb",
    }
    assert not [name for name in made if ".partial" in name]
    said = project.call("validate", "fit").stdout.splitlines()
    figures = json.loads((project.folder / "runs/fit/validate/metrics.json").read_text())
    assert f"loss {figures['loss']:.6g}" in next(line for line in said if "mean_absolute_error " in line)
    assert "exported models/fit: " in answer.stdout and "serving_default; 10 predictions" in answer.stdout
    history = (project.folder / "runs/fit/train/history.csv").read_text().splitlines()
    assert history[0] == "step,epoch,loss,val_loss"
    assert len(history) == 3

    project.params["pipelines"]["fit"]["validate"]["thresholds"]["loss"] = {"max": 1e-12}
    project.save()
    answer = project.call("validate", "fit")
    assert answer.returncode == 0
    assert "verdict: no: loss is " in answer.stdout
    answer = project.call("export", "fit")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[0].startswith("tapeline: fit is not exported: loss is ")
    assert project.outcome("export", "fit")["outcome"] == "verdict"


@pytest.mark.parametrize(
    ("stage", "name", "status"),
    [("ingest", "points", 0), ("train", "fit", 2), ("validate", "fit", 2), ("export", "fit", 2)],
)
def test_one_call_at_a_time_writes_the_outputs_of_a_stage(project, stage, name, status):
    lock = project.folder / ".tapeline" / "locks" / f"{stage}@{name}.lock"
    with processes.exclusive(lock, waiting=print):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tapeline", stage, name],
            cwd=project.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr.readline() == f"waiting for process {os.getpid()}, which holds {lock}\n"
    with process:
        process.communicate(timeout=100)
    assert process.returncode == status


LOGGED = re.compile(
    r"^(\d{4}-\d\d-\d\d .*|[IWEF]\d{4} .*|(INFO|WARNING).*|.*(absl|oneDNN|XLA|TfLite|tflite).*)$", re.MULTILINE
)


def test_ctrl_c_is_one_line(project):
    """While the command waits for Git."""
    git, begun = project.folder / "bin" / "git", project.folder / "begun"
    git.parent.mkdir()
    git.write_text(f"#!/bin/sh\n: > {begun}\nexec sleep 60\n")
    git.chmod(0o755)
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": f"{git.parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "tapeline", "list"],
        cwd=project.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        waiting.until(begun.exists, limit=60)
        process.send_signal(signal.SIGINT)
        answer = process.communicate(timeout=60)
    assert (process.returncode, *answer) == (130, "", "tapeline: stopped by SIGINT\n")


@pytest.mark.slow
def test_the_export_is_checked_in_the_batches_of_validate(project):
    """It was in batches of 256, in which a kernel may round otherwise: whole numbers then differed."""
    project.params["pipelines"]["fit"]["validate"]["batch_size"] = 4
    project.save()
    counted = '"rows": tf.fill([tf.shape(inputs["x"])[0]], tf.shape(inputs["x"])[0])'
    recipes.write(project.folder, recipes.LINE, ('return {"y": self', f'return {{{counted}, "y": self'))
    for stage, name in (("ingest", "points"), ("train", "fit"), ("validate", "fit"), ("export", "fit")):
        project.call(stage, name, check=True)
    recorded = np.load(project.folder / "runs" / "fit" / "validate" / "predictions.npz")["rows"]
    assert recorded.tolist() == [4] * 8 + [2] * 2


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_no_line_is_tensorflow_s_own(project, mode):
    project.params["pipelines"]["fit"]["train"]["compile"] = mode
    project.params["pipelines"]["fit"]["export"] = {"litert": ["float32", "int8"]}
    project.save()
    for stage, name in (("ingest", "points"), ("train", "fit"), ("validate", "fit"), ("export", "fit")):
        answer = project.call(stage, name)
        assert answer.returncode == 0, answer.stderr
        assert not (found := LOGGED.search(answer.stdout + answer.stderr)), found[0]


@pytest.mark.slow
def test_a_read_only_and_a_full_disk(project):
    """A tmpfs of its own, in a mount namespace of its own: read-only, then too small."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    assert project.call("ingest", "points").returncode == 0
    program = (
        "mkdir -p runs && mount -t tmpfs -o {options} none runs && "
        f"PYTHONPATH={ROOT / 'src'} {sys.executable} -m tapeline train fit; status=$?; find runs -type f; exit $status"
    )

    def train(options):
        command = ["unshare", "-rm", "sh", "-c", program.format(options=options)]
        return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=120, check=False)

    answer = train("ro")
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("tapeline: not writable or readable (")
    answer = train("size=4k,nr_inodes=6")
    assert answer.returncode == 1, answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("tapeline: no space left on the disk")
    assert "Traceback" not in answer.stderr


STARTS = """
import os, sys
with open(os.environ["STARTS"], "a") as file:
    print(os.getpid(), sys.flags.hash_randomization, *sys.orig_argv[1:], file=file)
"""


@pytest.mark.parametrize(
    ("seed", "python", "command", "started"),
    [
        ("5", ["-P"], ["train", "zz"], ["1", "0"]),
        ("random", [], ["tune", "zz"], ["1", "0"]),
        ("0", ["-P"], ["train", "zz"], ["0"]),
        ("5", ["-P"], ["list"], ["1"]),
        ("5", ["-R"], ["validate", "zz"], ["1", "1"]),
    ],
)
def test_what_computes_has_one_hash_seed_and_stays_one_process(tmp_path, seed, python, command, started):
    project, log = Folder(tmp_path), tmp_path / "starts.txt"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(STARTS)
    path = os.pathsep.join([str(tmp_path / "site"), str(ROOT / "src")])
    arguments = [*python, "-m", "tapeline", *command]
    answer = subprocess.run(
        [sys.executable, *arguments],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "STARTS": str(log)},
        capture_output=True,
        text=True,
        check=False,
    )
    starts = [line.split(" ", 2) for line in log.read_text().splitlines()]
    assert [randomized for _, randomized, _ in starts] == started
    assert len({pid for pid, *_ in starts}) == 1
    assert {said for *_, said in starts} == {" ".join(arguments)}
    if python == ["-R"]:
        assert answer.returncode == 2 and answer.stderr.startswith("tapeline: the order of sets must be the same")
    elif "zz" in command:
        assert answer.returncode == 2 and answer.stderr.startswith("tapeline: no pipeline 'zz'")


def test_a_locale_decides_no_name(tmp_path):
    """In one that is not of UTF-8, classes had other names, and images were split in another way."""
    project, image = Folder(tmp_path), tmp_path / "photos" / "train" / "Müller" / "one.png"
    image.parent.mkdir(parents=True)
    Image.new("L", (8, 8)).save(image)
    project.params["datasets"]["faces"] = {"source": "images", "needs": "photos", "size": [8, 8]}
    project.save()
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "tapeline", "ingest", "faces"],
        cwd=project.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    features = json.loads((tmp_path / "data" / "faces" / "dataset.json").read_text())["features"]
    assert features["label"]["classes"] == ["Müller"]


IN_ORDER = (
    'self.model(inputs["x"], training=False)',
    'self.model(tf.gather(inputs["x"], [int(n) for n in {"0", "1"}], axis=1), training=False)',
)  # fmt: skip
"""The columns of the input in the order of a set."""


@pytest.mark.long
def test_the_order_of_a_set_is_the_same_in_each_process(tmp_path):
    project = Folder(tmp_path)
    recipes.write(tmp_path, recipes.LINE, IN_ORDER)
    found = set()
    for seed, stage in enumerate(["ingest", "train", "validate", "validate", "validate", "export"]):
        answer = subprocess.run(
            [sys.executable, "-P", "-m", "tapeline", stage, "points" if stage == "ingest" else "fit"],
            cwd=project.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        if stage == "validate":
            found.add((tmp_path / "runs" / "fit" / "validate" / "metrics.json").read_text())
    assert len(found) == 1
