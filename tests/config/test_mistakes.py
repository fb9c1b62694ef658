"""What pydantic finds is said in the words of `params.yaml`, by the place that its author wrote."""

import json
import re
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from tapeline.config.hyperparameters import RecipeParams
from tapeline.config.mistakes import mistakes_in, pattern
from tapeline.config.params import Params


class A(RecipeParams):
    kind: Literal["a"]
    size: int = 1


class B(RecipeParams):
    kind: Literal["b"]


class Settings(RecipeParams):
    rates: dict[int, float] = {}
    sizes: tuple[int, ...] | str = ()
    words: Annotated[list[str], Field(min_length=1, max_length=2)] = ["x"]
    pair: tuple[int, int] = (1, 2)
    name: str | None = Field(None, pattern="^[a-z]+$")
    code: str = Field("a-1", pattern=pattern("^[a-z]-[0-9]$", "be a letter, a hyphen and a digit"))
    deep: dict[str, dict[str, bool]] = {}
    either: A | B | None = None
    tagged: Annotated[A | B, Field(discriminator="kind")] | None = None
    even: int = 0
    table: str = ""

    @field_validator("even")
    @classmethod
    def _is_even(cls, value):
        assert value % 2 == 0, "even must be even"
        return value

    @model_validator(mode="after")
    def _fits(self):
        if self.table == "both" and self.name:
            raise ValueError("give a name or a table")
        return self


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"rates": {"a": 0.5}}, 'p.rates.a is "a": must be a valid integer'),
        ({"rates": {"0": "x"}}, 'p.rates.0 is "x": must be a valid number'),
        ({"rates": []}, "p.rates is []: must be a mapping"),
        ({"sizes": 5}, "p.sizes is 5: must be a list or a valid string"),
        ({"sizes": [1, "b"]}, 'p.sizes.1 is "b": must be a valid integer'),
        ({"words": []}, "p.words is []: must have at least 1 entry"),
        ({"words": ["a", "b", "c"]}, 'p.words is ["a", "b", "c"]: must have at most 2 entries'),
        ({"pair": [1, 2, 3]}, "p.pair is [1, 2, 3]: must have at most 2 entries"),
        ({"pair": [1]}, "p.pair.1 is missing"),
        ({"deep": {"table": {"str": 1}}}, "p.deep.table.str is 1: must be true or false"),
        ({"either": {"kind": "c"}}, "p.either.kind is \"c\": must be 'a' or 'b'"),
        ({"tagged": {"kind": "c"}}, "p.tagged.kind is \"c\": must be one of 'a', 'b'"),
        ({"tagged": {}}, "p.tagged.kind is missing"),
        ({"tagged": {"kind": "a", "size": "x"}}, 'p.tagged.size is "x": must be a valid integer'),
        ({"even": 3}, "p.even: even must be even"),
        ({"table": "both", "name": "x"}, "p: give a name or a table"),
        ({"name": "X"}, "p.name is \"X\": must match pattern '^[a-z]+$'"),
        ({"code": "X"}, 'p.code is "X": must be a letter, a hyphen and a digit'),
        ({"table": 5, "tables": "x"}, "p.tables: no such setting"),
        ({"even": ["a" * 200]}, 'p.even is ["' + "a" * 58 + "...: must be a valid integer"),
    ],
)
def test_a_mistake_has_the_author_s_place_and_a_rule(content, said):
    with pytest.raises(ValidationError) as raised:
        Settings.model_validate_json(json.dumps(content))
    assert mistakes_in(raised.value, content)[0].told("p.") == said


WRONG = [
    "x",
    -1,
    2.5,
    True,
    None,
    [],
    {},
    [1],
    [["a"]],
    {"a": 1},
    {"a": {"b": 1}},
    {"source": "table", "features": [1]},
]
INSIDE = re.compile(
    r"pydantic|Input|input_|Field|Extra|Value error|Assertion|validation, |discriminator|\bstr\b|tuple|dict"
)


def test_no_setting_of_the_project_is_refused_in_pydantic_s_words():
    def models(annotation):
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        for inner in getattr(annotation, "__args__", ()):
            yield from models(inner)

    tried, seen = 0, set()
    waiting = [Params]
    while waiting:
        model = waiting.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, info in model.model_fields.items():
            waiting += models(info.annotation)
            for wrong in WRONG:
                content = {info.alias or name: wrong}
                try:
                    model.model_validate_json(json.dumps(content))
                except ValidationError as error:
                    for mistake in mistakes_in(error, content):
                        tried += 1
                        told = mistake.told("p.")
                        assert not INSIDE.search(told.replace(repr(wrong), "")), told
    assert len(seen) > 10 and tried > 500
