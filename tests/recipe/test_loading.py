"""An error in a recipe is told in one line: the recipe's place, or our own words as they are."""

import errno
from pathlib import Path

import pytest
import recipes

from tapeline.dataset.columns import Feature
from tapeline.runtime.errors import InputError, RunError


@pytest.mark.parametrize("where", ["eager", "graph", "converted"])
def test_our_own_refusal_inside_a_layer_is_said_without_kerass_words(tf, where):
    import keras

    from tapeline.recipe import loading

    class Refusing(keras.layers.Layer):
        def call(self, x):
            raise InputError("train.shards: this layer has no place in them")

    layer = Refusing()
    calls = {"graph": tf.function(layer, autograph=False), "converted": tf.function(lambda x: layer(x) + 1.0)}
    call = calls.get(where, layer)
    with pytest.raises(InputError) as raised, loading.blaming(Path("recipe.py"), InputError, "does not trace"):
        call(tf.zeros([2, 2]))
    assert str(raised.value) == "train.shards: this layer has no place in them"


@pytest.mark.first(1)
@pytest.mark.parametrize("where", [pytest.param("eager", marks=pytest.mark.slow), "graph"])
def test_memory_that_runs_out_is_said_with_the_tensor_and_the_line(tf, where):
    from tapeline.recipe import loading

    def large(x):
        return tf.reduce_sum(tf.tile(x, [2**25, 2**25]))

    line = large.__code__.co_firstlineno + 1
    call = tf.function(large) if where == "graph" else large
    with pytest.raises(RunError) as raised, loading.blaming(Path(__file__), InputError, "fails"):
        call(tf.ones([1, 8]))
    assert str(raised.value) == (
        f"recipe {__file__}, line {line} fails: out of memory: "
        f"no room for a tensor of shape ({2**25}, {2**28}) and type float"
    )


@pytest.mark.parametrize("where", ["eager", "graph", "saved"])
def test_a_full_disk_is_no_lack_of_memory(tf, where):
    from tapeline.recipe import loading

    def write():
        if where == "saved":
            with tf.io.TFRecordWriter("/dev/full") as file:
                file.write(b"a")
        else:
            tf.io.write_file("/dev/full", "a")

    call = tf.function(write) if where == "graph" else write
    with pytest.raises(OSError, match="No space left") as raised, loading.blaming(Path(__file__), InputError, "fails"):
        call()
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_pointer_of_git_lfs_is_no_recipe_and_no_weights(tmp_path, tf):
    from tapeline.recipe import bundles, loading

    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    recipe, index = tmp_path / "recipe.py", tmp_path / "weights.index"
    for file, read in (
        (recipe, lambda: loading.load(recipe)),
        (index, lambda: bundles.open_(tmp_path / "weights")),
    ):
        file.write_text(pointer)
        with pytest.raises(InputError) as refused:
            read()
        assert str(refused.value) == f"{file} is a pointer of Git LFS, not the file itself: run `git lfs pull`"


def test_a_class_with_two_names_is_one(tmp_path, tf):
    from tapeline.recipe import loading

    path = recipes.write(tmp_path, recipes.LINE + "\nModel = Line\n")
    assert loading.load(path).__name__ == "Line"


def test_a_mistake_in_an_init_of_its_own_is_one_line(tmp_path, tf):
    from tapeline.recipe import loading

    own = "    def __init__(self, *given):\n        super().__init__()\n\n    def build(self):"
    path = recipes.write(tmp_path, recipes.LINE, ("    def build(self):", own))
    with pytest.raises(InputError, match=r"does not build: TypeError: Recipe.__init__\(\) missing 2 required"):
        loading.build(path, {}, {})


def test_a_recipe_that_changes_its_features_changes_no_dataset(tmp_path, tf):
    from tapeline.recipe import loading

    recipe = recipes.write(
        tmp_path, recipes.LINE, ("def build(self):", "def build(self):\n        self.features.clear()")
    )
    features = {"x": Feature((2,), "float32")}
    assert loading.build(recipe, {}, features).features == {}
    assert features


def test_what_is_registered_under_a_name_may_be_registered_each_time(tmp_path, tf):
    """TensorFlow refuses the second one, and a recipe is executed several times."""
    from tapeline.recipe import loading

    name = "@tf.RegisterGradient('OfLine')\ndef of_line(op, gradient): return gradient\n\nclass Line("
    path = recipes.write(tmp_path, recipes.LINE, ("class Line(", name))
    for _ in range(3):
        loading.load(path)
    other = path.rename(path.with_name("other.py"))
    with pytest.raises(InputError, match="does not load: KeyError: .*Registering two gradient with name 'OfLine'"):
        loading.load(other)
