"""The four stages without TensorFlow: as processes and in what they report they behave like `python -m tapeline`.

What train does stands in the file `behaviour`: well, refuses (its input), waits (until a signal; then it leaves a
checkpoint, and the next one goes on from there), dies (of SIGKILL with a checkpoint, from which the next one goes on),
crawls (reports its progress in steps of 0.3 s), misses (the bound of its verdict) or takes N (seconds, with a
checkpoint each) or overflows (a metric of validation is not finite)."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from ruamel.yaml import YAML

from tapeline.config.project import Project
from tapeline.runtime import processes
from tapeline.runtime.errors import InputError, Interrupted, TapelineError, VerdictNo
from tapeline.runtime.interruption import interrupt
from tapeline.runtime.progress import Progress, write_outcome


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def ingest(project, name, report):
    write(project.data(name) / "x.txt", (project.folder / "points.csv").read_text())


def train(project, name, report):
    behaviour = (project.folder / "behaviour").read_text().strip()
    checkpoint = project.checkpoints(name) / "step"
    if behaviour == "refuses":
        raise InputError("the batch is larger than the data: make it smaller")
    print("first line", flush=True)
    if behaviour.startswith("takes "):
        take(checkpoint, int(behaviour.removeprefix("takes ")), report)
    elif checkpoint.exists():
        print(f"resuming from step {checkpoint.read_text()}", flush=True)
    elif behaviour == "waits":
        wait(checkpoint)
    elif behaviour == "dies":
        write(checkpoint, "17")
        os.kill(os.getpid(), signal.SIGKILL)
    for done in range(5):
        metrics = {"loss": 1.0 / (done + 1)}
        report({"event": "progress", "done": done + 1, "total": 5, "unit": "steps", "epoch": done, "metrics": metrics})
        time.sleep(0.3 if behaviour == "crawls" else 0)
    print("last | line", flush=True)
    run = project.run(name, "train")
    epochs = YAML(typ="safe").load((project.folder / "params.yaml").read_text())["pipelines"][name]["train"]["epochs"]
    distance = abs(epochs - 7)  # what a sweep can search for
    if behaviour == "overflows":
        distance = None
    write(run / "weights", "7")
    write(run / "metrics.json", {"step": 5, "train": {"loss": 0.2}, "val": {"loss": 0.25, "distance": distance}})
    write(run / "history.csv", "step,epoch,loss,val_loss\n1,1,0.9,\n5,5,0.2,0.25\n")


def wait(checkpoint):
    report_to = checkpoint.parent / "waiting"
    write(report_to, str(os.getpid()))
    try:
        while True:
            time.sleep(0.05)
    except Interrupted:
        write(checkpoint, "17")
        print("checkpoint at step 17", flush=True)
        raise


def take(checkpoint, seconds, report):
    begun = int(checkpoint.read_text()) if checkpoint.exists() else 0
    if begun:
        print(f"resuming from step {begun}", flush=True)
    for step in range(begun, seconds):
        time.sleep(1)
        report(
            {
                "event": "progress",
                "done": step + 1,
                "total": seconds,
                "unit": "steps",
                "metrics": {"loss": 1 / (step + 1)},
            }
        )
        write(checkpoint.with_suffix(".new"), str(step + 1))
        checkpoint.with_suffix(".new").replace(checkpoint)
    checkpoint.unlink()


def validate(project, name, report):
    run = project.run(name, "validate")
    write(run / "metrics.json", {"accuracy": 0.975, "loss": 0.3, "classes": {"one": {"precision": 1.0}}})
    write(run / "plots" / "confusion.csv", "actual,predicted\none,one\ntwo,two\ntwo,one\n")
    low = 0.99 if (project.folder / "behaviour").read_text().strip() == "misses" else 0.9
    check = {"metric": "accuracy", "value": 0.975, "min": low, "max": None, "holds": low < 0.975}
    reason = "" if check["holds"] else f"accuracy is 0.975, below its minimum {low}"
    answer = {"split": "test", "verdict": "no" if reason else "yes", "reason": reason, "checks": [check]}
    write(run / "verdict.json", answer)


def export(project, name, report):
    verdict = json.loads((project.run(name, "validate") / "verdict.json").read_text())
    if verdict["verdict"] == "no":
        raise VerdictNo(f"{name} is not exported: {verdict['reason']}")
    write(project.model(name) / "model.json", "{}")


def main(stage, name):
    if "DVC_STAGE" in os.environ:
        processes.die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    project = Project.find()
    outcome = project.outcome(stage, name)
    outcome.unlink(missing_ok=True)
    with Path("ran.log").open("a") as file:
        print(f"{stage}@{name}", file=file)
    try:
        with Progress(project.progress(stage, name)) as report:
            globals()[stage](project, name, report)
    except (TapelineError, Interrupted) as error:
        write_outcome(outcome, outcome=error.outcome, status=error.status, message=str(error))
        print(f"tapeline: {error}", file=sys.stderr)
        return error.status
    write_outcome(outcome, outcome="ok", status=0, message="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
