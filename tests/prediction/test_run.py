"""What is answered for a batch, with a model that is a plain function: no TensorFlow."""

import io
from pathlib import Path

import numpy as np
import pytest

from tapeline.prediction.inputs import Batch, Piece, batches, pieces
from tapeline.prediction.lines import Lines
from tapeline.prediction.run import FORMATS, _Predictor
from tapeline.prediction.signature import Signature
from tapeline.prediction.verified_model import VerifiedModel
from tapeline.runtime.errors import InputError

TAKEN = Signature.of({"x": {"dtype": "float32", "shape": [None, None]}}, {})


def test_small_files_are_joined_and_their_order_stays(tmp_path):
    given = [(2, 1), (2, 3), (2, 1), (5, 1), (1, 2), (1, 1)]
    for number, (width, count) in enumerate(given):
        np.save(tmp_path / f"{number}.npy", np.full((count, width), number, np.float32))
    files = [tmp_path / f"{number}.npy" for number in range(len(given))]
    found = list(batches(pieces(files, TAKEN, 4), 4))
    assert [len(batch) for batch in found] == [4, 1, 1, 3], "as many as fit, and of one shape"
    assert [batch.inputs["x"][:, 0].tolist() for batch in found] == [[0, 1, 1, 1], [2], [3], [4, 4, 5]]
    assert [piece.file for batch in found for piece in batch.pieces] == files


def batch(*counts):
    return Batch.of([Piece(Path(f"{n}.npy"), 7, {"x": np.zeros((count, 1))}) for n, count in enumerate(counts)])


def test_a_value_that_is_not_finite_is_found_in_its_file():
    values = np.array([0, 0, 0, np.nan, np.inf])
    predictor = _Predictor(lambda given, wanted: {"y": values}, Lines(io.BytesIO(), "csv"), [], ["y"])
    predicted = predictor(batch(2, 3))
    assert predicted.count == 5 and predicted.non_finite == {"answers": (2, "8 of 1.npy")}


def test_an_output_that_is_not_one_answer_for_each_example():
    predictor = _Predictor(lambda given, wanted: {"y": np.float32(1)}, Lines(io.BytesIO(), "csv"), [], ["y"])
    with pytest.raises(InputError, match=r"the output y has shape \(\) for 5 examples, which is not one per example"):
        predictor(batch(2, 3))


def model(outputs):
    return VerifiedModel("one", Path("none"), "0", TAKEN, outputs, ())


def test_what_a_kind_of_file_does_not_hold():
    two = model({"y": "float32", "z": "float32"})
    for form in FORMATS:
        assert two.selected(("z",), form) == ["z"]
    with pytest.raises(
        InputError, match=r"an .npy file holds one output, but these are y, z: choose one with --outputs"
    ):
        two.selected((), "npy")
    other = model({"row": "int64", "y": "float32"})
    with pytest.raises(InputError, match="the output row has the name of the column that numbers the examples"):
        other.selected((), "csv")
    assert other.selected((), "npz") == ["row", "y"]
