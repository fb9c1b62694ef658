"""Write the pictures and the table of `README.md` from what the pipelines left; run by `make gallery`.

python page.py
"""

import csv
import io
import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from matplotlib import pyplot
from PIL import Image
from ruamel.yaml import YAML

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
BEGIN, END = "<!-- table: written by page.py -->\n", "<!-- end of table -->\n"

RESULTS = {
    "in-graph": ("accuracy", "test accuracy {:.4f}; the weights of the root's `digits`, byte for byte"),
    "digits-gan": (
        ("rarest_class", "frechet_ratio"),
        "rarest class {:.1%} of 1 000 samples; Fréchet distance {:.3f} of the untrained generator's",
    ),
    "addition-seq2seq": ("exact", "{:.2%} of 5 000 unseen sums exact"),
    "sinusoid-maml": (("loss", "loss_before"), "squared error {:.3f} after one step on 600 new tasks, {:.2f} before"),
    "cartpole-reinforce": ("gymnasium_return", "mean return {:.1f} over 100 episodes of Gymnasium's CartPole-v1"),
    "digits-sam": ("accuracy", "test accuracy {:.4f} with as many gradients as `digits`"),
    "digits-cyclic": ("accuracy", "test accuracy {:.4f}"),
    "digits-multi": (
        ("accuracy", "drawing_gain"),
        "test accuracy {:.4f}; drawing {:.1f} times nearer than the mean image",
    ),
}
CURVES = {
    "addition-seq2seq": ("val_exact", "exact sums of the validation split", 0.9),
    "digits-cyclic": ("val_accuracy", "validation accuracy", 0.98),
    "cartpole-reinforce": ("return", "mean return of the training episodes", None),
}
COMPARED = {
    "addition-seq2seq": {"addition-seq2seq": "teacher forcing", "addition-unforced": "none"},
    "digits-cyclic": {
        "digits-cyclic": "cyclic, 0.001 to 0.06",
        "digits-constant-low": "constant 0.003",
        "digits-constant-middle": "constant 0.01",
        "digits-constant-high": "constant 0.03",
    },
    "cartpole-reinforce": {"cartpole-reinforce": "REINFORCE with baseline"},
}


def main() -> None:
    """Write the page and its pictures."""
    pipelines = YAML(typ="safe").load((HERE / "params.yaml").read_text(encoding="utf-8"))["pipelines"]
    PICTURES.mkdir(exist_ok=True)
    for name, drawn in (("digits-gan", "samples"), ("digits-multi", "drawings")):
        _enlarged(HERE / "runs" / name / "validate" / "plots" / f"{drawn}.png", PICTURES / f"{name}.png")
    for name in CURVES:
        _curves(name)
    _waves()
    rows = "".join(_row(name, pipelines[name]) for name in pipelines if name in RESULTS)
    head = "| pipeline | recipe | lines | result |\n|---|---|---|---|\n"
    page = HERE / "README.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    page.write_text(before + BEGIN + head + rows + END + rest.split(END)[1], encoding="utf-8")


def _row(name, pipeline):
    recipe = HERE / pipeline["recipe"]
    metrics = json.loads((HERE / "runs" / name / "validate" / "metrics.json").read_text(encoding="utf-8"))
    keys, sentence = RESULTS[name]
    result = sentence.format(*(metrics[key] for key in ((keys,) if isinstance(keys, str) else keys)))
    if name in CURVES and CURVES[name][2]:
        steps = [f"{label}: {_first(other, *CURVES[name][::2])}" for other, label in COMPARED[name].items()]
        result += f"; steps to {CURVES[name][2]:.0%}: {', '.join(steps)}"
    lines = len(recipe.read_text(encoding="utf-8").splitlines())
    return f"| `{name}` | [`{recipe.name}`]({pipeline['recipe']}) | {lines} | {result} |\n"


def _history(name):
    with (HERE / "runs" / name / "train" / "history.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _first(name, metric, bound):
    """Return the first step at which a metric reached a bound."""
    return next((row["step"] for row in _history(name) if float(row[metric] or 0) >= bound), "never")


def _curves(name):
    metric, label, bound = CURVES[name]
    figure, axes = pyplot.subplots(figsize=(5, 3), layout="constrained")
    for other, legend in COMPARED[name].items():
        rows = [row for row in _history(other) if row[metric]]
        axes.plot([int(row["step"]) for row in rows], [float(row[metric]) for row in rows], label=legend)
    if bound:
        axes.axhline(bound, color="grey", linewidth=0.8, linestyle="--")
    axes.set(xlabel="step", ylabel=label)
    axes.legend(frameon=False)
    _write(figure, name)


def _enlarged(source, target, times=4):
    with Image.open(source) as picture:
        size = picture.width * times, picture.height * times
        picture.resize(size, Image.Resampling.NEAREST).save(target)


def _waves():
    """Draw three new tasks: ten points, the network before and after one step on them, and the truth."""
    predicted = np.load(HERE / "runs" / "sinusoid-maml" / "validate" / "predictions.npz", allow_pickle=False)
    test = {path.stem: np.load(path) for path in (HERE / "data" / "sinusoids" / "test").glob("*.npy")}
    figure, row = pyplot.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
    for task, axes in enumerate(row):
        x = test["query_x"][task, :, 0]
        order = np.argsort(x)
        for values, label, style in (
            (test["query_y"], "truth", "k-"),
            (predicted["before"], "before", "C1--"),
            (predicted["query_y"], "after one step", "C0-"),
        ):
            axes.plot(x[order], values[task, order, 0], style, label=label, linewidth=1.2)
        axes.plot(test["support_x"][task, :, 0], test["support_y"][task, :, 0], "k.", label="the ten points")
    row[0].legend(frameon=False, fontsize=8)
    _write(figure, "sinusoid-maml")


def _write(figure, name):
    """Write a PNG without the version of the library in it, so that its bytes repeat."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)
    (PICTURES / f"{name}.png").write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main()
