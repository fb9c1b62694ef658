"""Real examples inside a SavedModel, in the format that TensorFlow Serving replays before it serves a version.

`assets.extra/tf_serving_warmup_requests` is a TFRecord of `tensorflow.serving.PredictionLog` messages.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from tapeline.export.prediction_log import message_class
from tapeline.runtime import tensorflow_files

FILE = "assets.extra/tf_serving_warmup_requests"
MOST = 1000
"""Requests in one file that TensorFlow Serving takes; with more it does not load the version."""


def write(saved_model: Path, name: str, requests: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    """Write one request for each example of each signature, for as many examples as `MOST` allows.

    requests: signature → input → values of shape (examples, ...); the shortest input determines the count.
    """
    path = saved_model / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with tensorflow_files.disk_errors(), tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in sorted(requests.items()):
            for number in range(min(MOST // len(requests), *map(len, inputs.values()))):
                example = {key: values[number : number + 1] for key, values in inputs.items()}
                file.write(request(name, signature, example))


def request(name: str, signature: str, inputs: Mapping[str, NDArray[Any]]) -> bytes:
    """Return one serialized `PredictionLog`."""
    log = message_class()()
    asked = log.predict_log.request
    asked.model_spec.name, asked.model_spec.signature_name = name, signature
    for key, values in sorted(inputs.items()):
        asked.inputs.add(key=key, value=tf.make_tensor_proto(values))
    return bytes(log.SerializeToString(deterministic=True))
