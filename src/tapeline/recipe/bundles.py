"""Write and read named tensors as one TensorFlow bundle: the weights of a trained model, the state of a checkpoint.

bundles.write(folder / bundles.WEIGHTS, variables.snapshot(found))
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from tapeline.runtime import files, tensorflow_files
from tapeline.runtime.errors import InputError, RunError

WEIGHTS = "weights"
"""The name of a trained model's bundle."""
RETRAIN = "train again"
CHECKOUT = f"`dvc checkout` it, or {RETRAIN}"
"""What is to be done about weights of another recipe, and about those that are damaged."""


def write(prefix: Path, values: Mapping[str, tf.Tensor]) -> None:
    """Write named tensors as `<prefix>.index` and `<prefix>.data-…`; the same bytes for the same values."""
    names = sorted(values)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tensorflow_files.disk_errors():
            tf.raw_ops.SaveV2(
                prefix=str(prefix),
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[values[n] for n in names],
            )
    except tf.errors.OpError as error:
        raise RunError(f"{prefix} could not be written: {error.message.splitlines()[0]}") from None


@dataclass(frozen=True)
class Bundle:
    """A bundle whose index has been read: shapes and dtypes by name. Values are checked when they are read."""

    prefix: Path
    shapes: Mapping[str, list[int]]
    dtypes: Mapping[str, tf.DType]
    remedy: str

    def read(self, names: Iterable[str]) -> dict[str, tf.Tensor]:
        """Return tensors by name. Raises `InputError` if the bytes of one are not as written."""
        names = list(names)
        try:
            values = tf.raw_ops.RestoreV2(
                prefix=str(self.prefix),
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                dtypes=[self.dtypes[name] for name in names],
            )
        except (tf.errors.OpError, ValueError) as error:
            raise _altered(self.prefix, ".data-00000-of-00001", error, self.remedy) from None
        return dict(zip(names, values, strict=True))


def open_(prefix: Path, *, remedy: str = CHECKOUT) -> Bundle:
    """Read the index of a bundle. Raises `InputError`, ending in `remedy`, if it is missing, truncated or altered."""
    index = Path(f"{prefix}.index")
    try:
        files.refuse_pointer(index)
        _check_footer(index)
        stored = tf.train.load_checkpoint(str(prefix))
        shapes, dtypes = stored.get_variable_to_shape_map(), stored.get_variable_to_dtype_map()
    except FileNotFoundError:
        raise InputError(f"{index} is missing: {remedy}") from None
    except (tf.errors.OpError, ValueError) as error:
        raise _altered(prefix, ".index", error, remedy) from None
    return Bundle(prefix, shapes, dtypes, remedy)


def _check_footer(index: Path) -> None:
    """Raise `ValueError` for a table whose footer points outside it: TensorFlow would allocate any size it claims.

    The last 48 bytes are the offsets and sizes of two blocks, as varints, padding, and 8 bytes that mark a table.
    """
    content = files.read_bytes(index)
    place, numbers = max(len(content) - 48, 0), [0]
    shift = 0
    for byte in content[place:-8]:
        numbers[-1] |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(0)
            shift = 0
    if len(content) < 48 or len(numbers) < 5 or any(n + size > place for n, size in (numbers[:2], numbers[2:4])):
        raise ValueError("its index points outside the file")


def _altered(prefix: Path, suffix: str, error: Exception, remedy: str) -> InputError:
    path = Path(f"{prefix}{suffix}")
    if not path.exists():
        return InputError(f"{path} is missing: {remedy}")
    lines = str(error).splitlines() or [type(error).__name__]
    return InputError(f"{path} was truncated or altered ({lines[0]}): {remedy}")


def read(prefix: Path, expected: Mapping[str, tf.Variable], *, remedy: str = "") -> dict[str, tf.Tensor]:
    """Return the tensors of a bundle, which must hold exactly the expected names and dtypes, and compatible shapes.

    Raises `InputError` naming the first difference, and as `open_` does; nothing is restored partially.
    remedy: what the message ends with; empty for that of weights.
    """
    bundle = open_(prefix, remedy=remedy or CHECKOUT)
    remedy = remedy or RETRAIN
    for name in sorted(expected.keys() | bundle.shapes.keys()):
        if name not in bundle.shapes:
            raise InputError(f"{prefix} lacks {name}, which the recipe has: {remedy}")
        if name not in expected:
            raise InputError(f"{prefix} has {name}, which the recipe lacks: {remedy}")
        variable, shape, dtype = expected[name], bundle.shapes[name], bundle.dtypes[name]
        if not variable.shape.is_compatible_with(shape) or dtype != variable.dtype:
            raise InputError(
                f"{prefix}: {name} is {dtype.name}{list(shape)}, the recipe's is "
                f"{variable.dtype.name}{_shown(variable.shape)}: {remedy}"
            )
    return bundle.read(expected)


def _shown(shape: tf.TensorShape) -> str:
    return "[...]" if shape.rank is None else str(shape.as_list())
