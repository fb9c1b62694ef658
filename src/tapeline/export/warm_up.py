"""Real examples inside a SavedModel, in the format that TensorFlow Serving replays before it serves a version.

`assets.extra/tf_serving_warmup_requests` is a TFRecord of `tensorflow.serving.PredictionLog` messages. Their definition
is in TensorFlow Serving's package; the fields needed are encoded here, in a fixed order.
Source: `tensorflow_serving/apis/prediction_log.proto`, `predict.proto` and `model.proto`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

FILE = "assets.extra/tf_serving_warmup_requests"

PREDICT_LOG, REQUEST, MODEL_SPEC, INPUTS = 6, 1, 1, 2
"""Field numbers: PredictionLog.predict_log, PredictLog.request, PredictRequest.model_spec and .inputs."""
NAME, SIGNATURE_NAME, KEY, VALUE = 1, 3, 1, 2
"""Field numbers: ModelSpec.name and .signature_name; a map's key and value."""


def write(saved_model: Path, name: str, requests: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    """Write one request for each example of each signature.

    requests: signature → input → values of shape (examples, ...); the shortest input determines the count.
    """
    path = saved_model / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in sorted(requests.items()):
            for number in range(min(len(values) for values in inputs.values())):
                example = {key: values[number : number + 1] for key, values in inputs.items()}
                file.write(request(name, signature, example))


def request(name: str, signature: str, inputs: Mapping[str, NDArray[Any]]) -> bytes:
    """Return one serialized `PredictionLog`."""
    spec = _field(NAME, name.encode()) + _field(SIGNATURE_NAME, signature.encode())
    tensors = b""
    for key, values in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(values).SerializeToString(deterministic=True)
        tensors += _field(INPUTS, _field(KEY, key.encode()) + _field(VALUE, tensor))
    return _field(PREDICT_LOG, _field(REQUEST, _field(MODEL_SPEC, spec) + tensors))


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of the protocol-buffer wire format."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
