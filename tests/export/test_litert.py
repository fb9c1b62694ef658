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
