"""What `tapeline predict` and `tapeline infer` share of their options; imports nothing that takes time."""

from tapeline.runtime.errors import InputError

MODEL = "such as 'digits#prod' (default: the highest version)"
FILES = "a .npy, .npz, CSV, JSON lines or image file"
OUT = "a .csv, .jsonl, .parquet, .npy or .npz file; with {name} in it, one per input FILE"
OUTPUTS = "the outputs to write, by name or prefix (default: all but 'features' and 'logits')"
BATCH_SIZE = "examples per call of the model (default: 256 to 4096, depending on their size)"
MOST = 2**31 - 1


def check_batch_size(number: int | None) -> None:
    """Raise `InputError` for an invalid `--batch-size`."""
    if number is not None and not 1 <= number <= MOST:
        raise InputError(f"--batch-size is {number}: must be from 1 to {MOST}")
