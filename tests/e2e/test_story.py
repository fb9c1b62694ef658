"""From a trained model to production and back: real training, Git, DVC and GTO, a remote in a folder, a second clone."""

import json
import shutil

import numpy as np
import pytest
from clones import BIN, ROOT, call, cloned

PLAIN = """
import sys
import numpy as np
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1] + "/saved_model")
images = np.load(sys.argv[2])
answers = model.signatures["serving_default"](image=tf.constant(images))
np.save(sys.argv[3], answers["class"].numpy())
"""
"""What the README shows: no line of Tapeline."""


class Producer:
    """The checkout in which models are made."""

    def __init__(self, folder):
        self.folder = cloned(ROOT, folder / "project")
        (folder / "remote").mkdir()
        call(self.folder, "git", "config", "user.email", "ann@example.org")
        call(self.folder, "git", "config", "user.name", "Ann")
        call(self.folder, "git", "switch", "--quiet", "-c", "story")
        call(self.folder, BIN / "dvc", "remote", "add", "--quiet", "--default", "store", "../remote")
        params = self.folder / "params.yaml"
        text = params.read_text().replace("accuracy: {min: 0.97}", "accuracy: {min: 0.2}", 1)
        text = text.replace("calibration_error: {max: 0.05}", "calibration_error: {max: 1.0}")
        text = text.replace("accuracy: {min: 0.97}", "accuracy: {min: 0.2}", 1)  # the gate's
        text = text.replace("bound: {min: 0.85}, change: {min: -0.1}", "bound: {min: 0.0}, change: {min: -1.0}")
        params.write_text(text)

    def train(self, epochs):
        """Train, commit, push the bytes; return the accuracy."""
        params = self.folder / "params.yaml"
        head, _, rest = params.read_text().partition("      epochs: ")
        params.write_text(f"{head}      epochs: {epochs}\n{rest.partition(chr(10))[2]}")
        call(self.folder, BIN / "dvc", "repro", "--quiet", "export@digits")
        call(self.folder, "git", "add", "--all")
        call(self.folder, "git", "commit", "--quiet", "--message", f"{epochs} epochs")
        call(self.folder, BIN / "dvc", "push", "--quiet", "export@digits", "--with-deps")
        return json.loads((self.folder / "runs/digits/validate/metrics.json").read_text())["accuracy"]

    def __call__(self, *arguments, status=0):
        return call(self.folder, BIN / "tapeline", "registry", *arguments, status=status)

    def agree(self, live):
        """Plain GTO and Tapeline say the same."""
        ours = json.loads(self("show", "--json").stdout)
        gto = json.loads(call(self.folder, BIN / "gto", "show", "--json").stdout)["digits"]
        assert [row["version"] for row in ours if "prod" in row["stages"]] == [gto["stage"]["prod"]] == [live]
        assert gto["version"] == ours[0]["version"]
        history = json.loads(call(self.folder, BIN / "gto", "history", "digits", "--json").stdout)
        rows = json.loads(self("history", "digits", "--json").stdout)
        assert [row["tag"] for row in rows] == [event["ref"] for event in history]


class Consumer:
    """A second clone, with a cache of its own, that has nothing but tags and the remote."""

    def __init__(self, producer, folder):
        self.folder, self.producer = folder / "consumer", producer
        call(folder, "git", "clone", "--quiet", producer.folder, self.folder)
        (folder / "plain.py").write_text(PLAIN)
        self.images = folder / "images.npy"
        np.save(self.images, np.load(producer.folder / "data/digits/test/image.npy")[:200])

    def gets(self):
        """Return the model.json that plain DVC brings, once plain TensorFlow and `tapeline predict` agree about it."""
        call(self.folder, "git", "pull", "--quiet", "--tags", "--force")
        got = self.folder.parent / "got"
        shutil.rmtree(got, ignore_errors=True)
        call(
            self.folder,
            BIN / "dvc",
            "artifacts",
            "get",
            self.producer.folder,
            "digits",
            "--stage",
            "prod",
            "--out",
            got,
        )
        classes = self.folder.parent / "classes.npy"
        call(self.folder.parent, BIN / "python", "plain.py", got, self.images, classes)
        answers = self.folder.parent / "answers.jsonl"
        call(self.folder, BIN / "tapeline", "predict", "digits#prod", self.images, "--out", answers)
        rows = [json.loads(line) for line in answers.read_text().splitlines()]
        assert [row["class"] for row in rows] == np.load(classes).tolist()
        assert [row["row"] for row in rows] == list(range(200))
        return json.loads((got / "model.json").read_text())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_story(tmp_path):
    producer = Producer(tmp_path)
    first = producer.train(26)
    assert producer("register", "digits").stdout.startswith("registered digits@v1.0.0")
    said = producer("promote", "digits", "prod").stdout
    assert "digits@v1.0.0 for prod, no champion: yes" in said
    assert "digits@v1.0.0 is live in prod (digits#prod#1)" in said
    producer.agree("v1.0.0")
    consumer = Consumer(producer, tmp_path)
    assert consumer.gets()["metrics"]["accuracy"] == first

    better = producer.train(45)
    assert better > first
    producer("register", "digits", "--bump", "minor")
    said = producer("promote", "digits@v1.1.0", "prod").stdout
    assert "digits@v1.1.0 for prod against v1.0.0: yes" in said and "not worse by more than 0.02" in said
    producer.agree("v1.1.0")
    assert consumer.gets()["metrics"]["accuracy"] == better

    worse = producer.train(20)
    producer("register", "digits")
    refused = producer("promote", "digits@v1.1.1", "prod", status=1)
    assert refused.stderr.startswith("tapeline: digits@v1.1.1 is not promoted to prod: ")
    assert f"accuracy {worse - better:+.4f}" in refused.stderr and refused.stderr.count("\n") == 1
    producer.agree("v1.1.0")
    verdict = json.loads((producer.folder / ".tapeline/registry/verdicts/digits@v1.1.1-prod.json").read_text())
    assert verdict["verdict"] == "no" and verdict["champion"] == "v1.1.0" and verdict["data"]["examples"] == 899

    assert "v1.1.0 → v1.0.0" in producer("rollback", "digits", "prod").stdout
    producer.agree("v1.0.0")
    assert consumer.gets()["metrics"]["accuracy"] == first

    found = json.loads(producer("lineage", "digits@v1.1.0", "--json").stdout)
    assert found["parameters"]["pipelines.digits.train"]["epochs"] == 45
    assert found["data"]["source"] == {"kind": "builder", "name": "optdigits", "version": "1.0.0"}
    assert found["environment"]["libraries"]["tensorflow"]
    assert [(event["action"], event["verdict"], event["by"]) for event in found["assignments"]] == [
        ("promote", "yes", "Ann")
    ]
    assert {check["kind"] for check in found["assignments"][0]["checks"]} == {
        "infra",
        "bound",
        "slice",
        "slice change",
        "paired",
    }
    print(f"accuracy {first:.4f}, {better:.4f}, {worse:.4f}\n{refused.stderr}")
