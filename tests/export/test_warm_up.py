"""Warm-up requests, read back with a descriptor that says what TensorFlow Serving's own `.proto` files say."""

import errno
import hashlib

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MESSAGE, STRING = 11, 9
FIELDS = {
    "ModelSpec": [("name", 1, STRING, ""), ("signature_name", 3, STRING, "")],
    "PredictRequest": [("model_spec", 1, MESSAGE, "ModelSpec"), ("inputs", 2, MESSAGE, "PredictRequest.InputsEntry")],
    "PredictLog": [("request", 1, MESSAGE, "PredictRequest")],
    "PredictionLog": [("predict_log", 6, MESSAGE, "PredictLog")],
}


def prediction_log(tf):
    """Return the class of `tensorflow.serving.PredictionLog`, with the fields that a request has."""
    pool = descriptor_pool.DescriptorPool()
    from tensorflow.core.framework import tensor_pb2

    def add(file):
        for dependency in file.dependencies:
            add(dependency)
        pool.AddSerializedFile(file.serialized_pb)

    add(tensor_pb2.DESCRIPTOR)
    file = descriptor_pb2.FileDescriptorProto(name="log.proto", package="serving", syntax="proto3")
    file.dependency.append(tensor_pb2.DESCRIPTOR.name)
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            repeated = of.endswith("Entry")
            added = message.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
            if of:
                added.type_name = f".serving.{of}"
        if name == "PredictRequest":
            entry = message.nested_type.add(name="InputsEntry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=STRING, label=1)
            entry.field.add(name="value", number=2, type=MESSAGE, label=1, type_name=".tensorflow.TensorProto")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("serving.PredictionLog"))


@pytest.mark.parametrize("count", [1, 3, 200])
def test_each_example_is_a_request_that_the_definition_reads(tf, tmp_path, count):
    from tapeline.export import warm_up
    from tapeline.runtime.untuned import untuned

    images = np.arange(count * 300, dtype=np.uint8).reshape(count, 10, 30)
    scale = np.linspace(-1, 1, count, dtype=np.float32)[:, None]
    texts = np.array([b"\x00\xff", *[b"x"] * (count - 1)], object)
    given = {"serving_default": {"image": images, "scale": scale}, "by_text": {"text": texts}}
    warm_up.write(tmp_path, "näme", given)
    records = [bytes(r.numpy()) for r in untuned(tf.data.TFRecordDataset(str(tmp_path / warm_up.FILE)))]
    logs = [prediction_log(tf).FromString(record) for record in records]
    assert [log.predict_log.request.model_spec.signature_name for log in logs] == ["by_text"] * count + [
        "serving_default"
    ] * count
    assert {log.predict_log.request.model_spec.name for log in logs} == {"näme"}
    tensors = [{k: tf.make_ndarray(v) for k, v in log.predict_log.request.inputs.items()} for log in logs]
    assert [t["text"].tolist() for t in tensors[:count]] == [[text] for text in texts]
    for number, found in enumerate(tensors[count:]):
        assert found["image"].dtype == np.uint8 and found["scale"].dtype == np.float32
        np.testing.assert_array_equal(found["image"], images[number : number + 1])
        np.testing.assert_array_equal(found["scale"], scale[number : number + 1])


def test_all_signatures_together_have_at_most_as_many_requests_as_serving_takes(tf, tmp_path):
    from tapeline.export import warm_up
    from tapeline.runtime.untuned import untuned

    warm_up.write(tmp_path, "m", {name: {"a": np.zeros([600, 1])} for name in ("one", "two")})
    assert sum(1 for _ in untuned(tf.data.TFRecordDataset(str(tmp_path / warm_up.FILE)))) == 1000


def test_a_full_disk_is_one(tf, tmp_path):
    from tapeline.export import warm_up

    file = tmp_path / warm_up.FILE
    file.parent.mkdir()
    file.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        warm_up.write(tmp_path, "m", {"s": {"a": np.zeros([1, 2])}})
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(file))


def test_the_same_requests_are_the_same_bytes(tf):
    from tapeline.export import warm_up

    one = warm_up.request("m", "s", {"b": np.ones(2), "a": np.zeros(1)})
    assert one == warm_up.request("m", "s", {"a": np.zeros(1), "b": np.ones(2)})


def test_the_bytes_are_those_of_all_versions(tf):
    """An input whose name starts with another's comes after it, whichever implementation of Protobuf writes them."""
    from tapeline.export import warm_up

    given = {name: np.full((1, 2), number, np.float32) for number, name in enumerate(["a1", "Z", "é", "a10", "a"])}
    written = warm_up.request("näme", "serving_default", given)
    assert [written.index(f"\n{chr(len(name.encode()))}{name}\x12".encode()) for name in sorted(given)] == sorted(
        written.index(f"\n{chr(len(name.encode()))}{name}\x12".encode()) for name in given
    )
    assert hashlib.sha256(written).hexdigest() == "74b384635479d0766cc4bf09d42ee052040fc15287fc6fd4cd38c2d45cce9162"
