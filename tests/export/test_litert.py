"""LiteRT files that are made and cannot be used."""

import numpy as np
import pytest

from tapeline.runtime.errors import RunError


def test_a_model_that_converts_and_does_not_run_is_named(tmp_path, tf):
    from tapeline.export import litert

    @tf.function(input_signature=[tf.TensorSpec((None, 64), name="x")])
    def transformed(x):
        return {"y": tf.signal.fft(tf.cast(x, tf.complex64))}

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=transformed)
    model = litert.convert(tmp_path, "float32")
    with pytest.raises(RunError, match=r"^the model converts to LiteRT and does not run: .*; leave out export.litert$"):
        litert.answers(model, {"x": np.ones((3, 64), np.float32)})


def test_an_input_of_another_signature_is_left_out(tmp_path, tf):
    from tapeline.export import litert

    double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec((None, 3), name="x")])
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=double.get_concrete_function())
    given = {"x": np.ones((5, 3), np.float32), "other": np.zeros((5, 2), np.float32)}
    found = litert.answers(litert.convert(tmp_path, "float32"), given)
    np.testing.assert_array_equal(found["y"], np.full((5, 3), 2, np.float32))


def test_operations_that_litert_lacks_are_named(tmp_path, tf):
    """The message repeated the converter's first line, a paragraph of places in its own representation."""
    from tapeline.export import litert

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="x")])
    def lower(x):
        return {"y": tf.strings.strip(tf.strings.lower(x))}

    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=lower)
    named = "operations that it lacks for such tensors: StringLower, StringStrip; leave out export.litert"
    with pytest.raises(RunError, match=f"^the model does not convert to LiteRT: {named}$"):
        litert.convert(tmp_path, "float32")
