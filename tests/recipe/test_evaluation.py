"""Exact metrics: sums and counts over every example, the short last batch included."""

import random

import datasets
import numpy as np
import pytest
import recipes

from tapeline.runtime.errors import InputError


@pytest.fixture
def built(tmp_path, tf):
    from tapeline.recipe import loading

    data = datasets.blobs(tmp_path / "blobs")
    return loading.build(recipes.write(tmp_path, recipes.EVERYTHING), {}, data.features), data


@pytest.mark.parametrize("size", [1, 8, 23, 1000])
def test_the_mean_does_not_depend_on_the_batch_size(built, tf, size):
    from tapeline.recipe.evaluation import Evaluation

    recipe, data = built
    measured = Evaluation(recipe, data, "val", batch_size=size, key=tf.constant([0, 0]))()
    image, label = (tf.constant(data.column("val", name)) for name in ("image", "label"))
    losses, further = recipe.loss({"image": image, "label": label}, training=False)
    assert measured["loss"] == pytest.approx(float(tf.reduce_mean(losses)), rel=1e-6)
    assert measured["accuracy"] == np.mean(further["accuracy"])


def test_sums_and_counts(tf):
    from tapeline.recipe.metrics import means, sums_and_counts

    metrics = {"loss": tf.constant([1.0, 2.0, 6.0]), "hits": tf.constant([True, False, True]), "ratio": (3.0, 4)}
    names, table = sums_and_counts(metrics)
    assert names == ["hits", "loss", "ratio"]
    assert table.numpy().tolist() == [[2.0, 3.0], [9.0, 3.0], [3.0, 4.0]]
    assert means(names, table.numpy()) == {"hits": 2 / 3, "loss": 3.0, "ratio": 0.75}
    assert means(["empty"], np.zeros((1, 2))) == {}


def test_a_mean_is_refused(tf):
    from tapeline.recipe.metrics import sums_and_counts

    with pytest.raises(InputError, match=r"metric 'loss' has shape \(\): return one value per example, or a pair"):
        sums_and_counts({"loss": tf.constant(1.0)})


def test_a_pair_of_vectors_is_refused(tf):
    """It was traced, and failed at the first validation as an error of NumPy."""
    from tapeline.recipe.metrics import sums_and_counts

    with pytest.raises(
        InputError, match=r"^metric 'iou' is a tuple of shapes \(3,\), \(3,\): return two numbers, such"
    ):
        sums_and_counts({"loss": tf.ones([3]), "iou": (tf.ones([3]), tf.ones([3]))})
    with pytest.raises(InputError, match=r"^metric 'iou' is a tuple of shapes \(\), \(\), \(\): return two numbers"):
        sums_and_counts({"iou": (1.0, 2.0, 3.0)})


def test_what_only_python_can_measure(tmp_path, tf):
    from tapeline.recipe import loading
    from tapeline.recipe.evaluation import Evaluation

    source = recipes.LINE + "\n    def evaluate(self, data):\n        return {'size': len(data['x']) / 2}\n"
    data = datasets.points(tmp_path / "points", examples=40)
    recipe = loading.build(recipes.write(tmp_path, source), {}, data.features)
    assert Evaluation(recipe, data, "val", batch_size=4, key=tf.constant([0, 0]))()["size"] == 3.5


def test_what_evaluate_and_pictures_draw_repeats_and_moves_no_generator(tmp_path, tf):
    from tapeline.recipe import loading
    from tapeline.recipe.evaluation import Evaluation

    source = recipes.LINE + (
        "\n    def evaluate(self, data):\n        return {'drawn': np.random.rand() + random.random()}\n"
        "\n    def pictures(self, data):\n        return {'drawn': np.random.randint(0, 255, (2, 2, 1), np.uint8)}\n"
    )
    data = datasets.points(tmp_path / "points", examples=40)
    path = recipes.write(tmp_path, source, ("import keras,", "import random\nimport keras, numpy as np,"))
    recipe = loading.build(path, {}, data.features)
    evaluation = Evaluation(recipe, data, "val", batch_size=4, key=tf.constant([3, 0]))
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), repr(np.random.get_state())
    once, again = ((evaluation()["drawn"], evaluation.pictures()["drawn"].tolist()) for _ in range(2))
    assert once == again
    assert (random.getstate(), repr(np.random.get_state())) == before


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "^pictures returns nothing: return a dict of images"),
        ("{'../up': np.ones((2, 2, 1), np.uint8)}", "^pictures names '../up': a picture's name becomes a file's"),
        ("{'/top': np.ones((2, 2, 1), np.uint8)}", "^pictures names '/top'"),
        ("{7: np.ones((2, 2, 1), np.uint8)}", "^pictures names 7"),
        ("{'a': [[[1]]]}", "^pictures returns a list for 'a': make it a NumPy array$"),
        (
            "{'a': np.ones((2, 2, 1))}",
            r"^pictures returns float64 of shape \(2, 2, 1\) for 'a': it must be uint8 or uint16 of shape",
        ),
        ("{'a': np.ones((2, 2), np.uint8)}", r"^pictures returns uint8 of shape \(2, 2\) for 'a'"),
        ("{'a': np.ones((0, 2, 1), np.uint8)}", r"^pictures returns uint8 of shape \(0, 2, 1\) for 'a'"),
        ("{'a': np.ones((2, 2, 5), np.uint8)}", r"it must be uint8 or uint16 of shape \(height, width, 1 to 4\)$"),
        ("{'of/a step': np.ones((2, 2, 4), np.uint8)}", ""),
        ("{'of/a step': np.ones((2, 2, 2), np.uint16)}", ""),
    ],
)
def test_pictures_are_files(tmp_path, tf, returned, said):
    from tapeline.recipe import loading
    from tapeline.recipe.evaluation import Evaluation

    source = recipes.LINE + f"\n    def pictures(self, data):\n        return {returned}\n"
    data = datasets.points(tmp_path / "points", examples=40)
    recipe = loading.build(
        recipes.write(tmp_path, source, ("import keras,", "import keras, numpy as np,")), {}, data.features
    )
    evaluation = Evaluation(recipe, data, "val", batch_size=4, key=tf.constant([3, 0]))
    if not said:
        assert list(evaluation.pictures()) == ["of/a step"]
        return
    with pytest.raises(InputError, match=said):
        evaluation.pictures()
