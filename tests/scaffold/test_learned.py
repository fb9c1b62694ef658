"""What a new recipe learns from: numbers and vectors of numbers, by their names."""

import ast

from tapeline.scaffold.learned import Known, names_of


def test_numbers_and_targets():
    shapes = {"image": (8, 8, 1), "x": (3,), "age": (), "kind": (), "y": (1,), "label": ()}
    known = Known(shapes, ["kind", "label"])
    assert known.numbers == ["x", "age", "y"]
    assert known.targets == ["age", "y"]
    assert known.label == "kind"
    assert [name for name in (*shapes, None) if known.is_scalar(name)] == ["age", "kind", "label"]


def test_the_names_of_many_inputs_are_a_line_each():
    names = [f"column_{number}" for number in range(30)]
    assert names_of(["a", "b"]) == '("a", "b")'
    assert names_of(["a"]) == '("a",)'
    assert ast.literal_eval(names_of(names)) == tuple(names)
    assert max(map(len, names_of(names).splitlines())) < 30
