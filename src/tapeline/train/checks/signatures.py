"""Check what a recipe will export: the inputs and outputs that TensorFlow saves and serves, and validate can ask.

TensorFlow itself says so only when the model is written, after training, or serves something else without a word.
"""

import keyword
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.export import tables
from tapeline.recipe import Recipe
from tapeline.recipe.predicting import Answer
from tapeline.recipe.variables import find
from tapeline.runtime.errors import InputError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""What an input may be called. TensorFlow saves others under another name, or not at all."""


def check_inputs(where: str, specs: Any, given: Mapping[str, Answer] | None) -> None:
    """Raise `InputError` for an input that a SavedModel cannot have, or that `served` gives otherwise.

    where: the recipe and the signature. specs: the input signature. given: what `served` gives by name; None where that
    is not known, or not asked of this signature.
    """
    if not isinstance(specs, (list, tuple)):
        raise InputError(f"{where} has no input signature: make it tf.function(…, input_signature=[…])")
    for spec in specs:
        if not isinstance(spec, tf.TensorSpec):
            raise InputError(
                f"{where} takes a {type(spec).__name__}: give each input its own tf.TensorSpec, and join them inside"
            )
        _check_input(where, spec)
        if given is not None and spec.name in given:
            _check_given(where, spec, given[spec.name])
    if twice := {spec.name for spec in specs if [other.name for other in specs].count(spec.name) > 1}:
        raise InputError(f"{where} takes {', '.join(sorted(twice))} twice: give each input its own name")


def _check_input(where: str, spec: Any) -> None:
    if spec.name is None:
        raise InputError(f"{where} takes an input without a name: write tf.TensorSpec(…, name='x')")
    if not _NAME.fullmatch(spec.name) or keyword.iskeyword(spec.name) or spec.name == "self":
        raise InputError(
            f"{where} takes {spec.name!r}, a name that TensorFlow cannot save: use a letter, then letters, digits and "
            "'_', but no Python keyword; a feature is named under `features` or in its builder"
        )
    if spec.shape.rank is None:
        raise InputError(
            f"{where} takes {spec.name} with any number of axes: fix the number, such as shape=(None, None)"
        )
    if np.dtype(spec.dtype.as_numpy_dtype).kind not in "biufcO":
        raise InputError(
            f"{where} takes {spec.name} as {spec.dtype.name}, which no input file can hold: take float32 or integers, "
            "and tf.cast inside"
        )


def _check_given(where: str, spec: Any, given: Answer) -> None:
    if spec.dtype.name != given.dtype:
        raise InputError(
            f"{where} takes {spec.name} as {spec.dtype.name}, but gets {given.dtype}: make both the same, and tf.cast "
            "inside"
        )
    found = given.shape or ()
    wanted = tf.TensorShape(found[:1] and [None, *found[1:]])
    if spec.shape.rank == 0 or not spec.shape.is_compatible_with(wanted):
        raise InputError(
            f"{where} takes {spec.name} of shape {tuple(spec.shape)}, but gets {tuple(wanted)}: both must have the "
            "examples as the first axis, and the same other axes"
        )
    if found[0] and spec.shape[0] and found[0] % spec.shape[0]:
        raise InputError(
            f"{where} takes {spec.name} in batches of {spec.shape[0]}, into which {found[0]} examples do not divide: "
            "make the first axis None"
        )


def checked_outputs(where: str, found: Any) -> dict[str, Answer]:
    """Return the types of a traced function's outputs.

    Raises `InputError` for anything but tensors of known shapes in a dict.
    """
    if not isinstance(found, Mapping) or not found:
        what = "a dict without outputs" if isinstance(found, Mapping) else "nothing" if found is None else "no dict"
        raise InputError(f"{where} returns {what}: return a dict of outputs, such as {{'score': scores}}")
    for name, value in found.items():
        if not isinstance(name, str):
            raise InputError(f"{where} returns an output called {name!r}: make its name a string")
        if not isinstance(value, (tf.Tensor, tf.TensorSpec)):
            raise InputError(
                f"{where} returns a {type(value).__name__} as {name!r}, which cannot be served: return a tensor, "
                "such as ragged.to_tensor(shape=(None, 9)) or tf.sparse.to_dense(sparse), or several outputs"
            )
        if value.shape.rank is None:
            raise InputError(
                f"{where} returns {name!r} with an unknown number of axes: set its shape with tf.ensure_shape(…, "
                "(None, 3))"
            )
    return {name: Answer(value.dtype.name, tuple(value.shape.as_list())) for name, value in found.items()}


def check_held(where: str, traced: Any, recipe: Recipe) -> None:
    """Raise `InputError` for a variable or a table of a traced function that the SavedModel would lack."""
    variables = find(recipe).all().values()
    held = {id(variable.handle) for variable in variables}
    held |= {id(table.resource_handle) for table in tables.read_by([traced], recipe, variables)}
    names = {id(variable.handle): variable.name for variable in traced.graph.variables}
    for external, _ in traced.graph.captures:
        if external.dtype in (tf.resource, tf.variant) and id(external) not in held:
            name = names.get(id(external), "a lookup table or another resource")
            raise InputError(
                f"{where} reads {name}, which no attribute of the recipe holds, so that it could not be exported: make "
                "it in `build`, and keep it in an attribute"
            )


def check_batched(where: str, found: Mapping[str, Answer]) -> None:
    """Raise `InputError` for an output without examples: those of all batches could not be joined."""
    for name, answer in found.items():
        if not answer.shape:
            raise InputError(
                f"{where} returns {name!r} without an axis for the examples: return a value for each, such as "
                "tf.fill(tf.shape(x)[:1], value)"
            )


def type_of(values: Any) -> Answer:
    """Return an array's type as an input."""
    dtype = "string" if values.dtype.kind in "SUO" else values.dtype.name
    return Answer(dtype, values.shape)
