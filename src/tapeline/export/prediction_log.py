"""`tensorflow.serving.PredictionLog` with the fields that a warm-up request has, as a message class of Protobuf.

TensorFlow Serving's own package has the definition, but needs TensorFlow's source layout and one exact version. What
is needed is declared here; on the wire, only the numbers and types count. Imported without TensorFlow, because the
registry hands the definition to a process that runs no Tapeline code.
Source: `tensorflow_serving/apis/prediction_log.proto`, `predict.proto` and `model.proto`.
"""

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

PACKAGE = "tapeline.serving"
"""Not Serving's own, which may be loaded in the same process."""
NAME = f"{PACKAGE}.PredictionLog"
ENTRY = f".{PACKAGE}.Entry"
"""Of a map, which is a list of entries on the wire. As a list it has the order in which it is filled; Protobuf's own
deterministic order of a map is another in each implementation."""
MESSAGES = {
    "ModelSpec": (("name", 1, None), ("signature_name", 3, None)),
    "PredictRequest": (("model_spec", 1, f".{PACKAGE}.ModelSpec"), ("inputs", 2, ENTRY)),
    "Entry": (("key", 1, None), ("value", 2, ".tensorflow.TensorProto")),
    "PredictLog": (("request", 1, f".{PACKAGE}.PredictRequest"),),
    "PredictionLog": (("predict_log", 6, f".{PACKAGE}.PredictLog"),),
}
"""Message → name, number and type of its fields; text where no type is given."""


def definition() -> bytes:
    """Return the serialized `FileDescriptorProto`; it depends on TensorFlow's `tensor.proto`."""
    file = FileDescriptorProto(name="tapeline/prediction_log.proto", package=PACKAGE, syntax="proto3")
    file.dependency.append("tensorflow/core/framework/tensor.proto")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            _add(message, field, number, kind)
            if kind == ENTRY:
                message.field[-1].label = Field.LABEL_REPEATED
    return bytes(file.SerializeToString(deterministic=True))


def message_class() -> Any:
    """Return the class of the message; TensorFlow must have been imported."""
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(definition())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(NAME))


def _add(message: Any, name: str, number: int, kind: str | None) -> None:
    field = message.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
    if kind is None:
        field.type = Field.TYPE_STRING
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, kind
