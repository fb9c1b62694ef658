"""JSON of others: a value that other programs can have too, or one line."""

import json

import pytest

from tapeline.parsing import json_text


def test_what_is_json():
    value = {"a": [1, 2.5, "ö\n", None, True, -(10**200)], "b": {"😀": []}}
    assert json_text.parsed(json.dumps(value)) == value
    assert json_text.parsed(json.dumps(value, ensure_ascii=False).encode("utf-8-sig")) == value
    deep = "[" * 100 + "]" * 100
    assert json.dumps(json_text.parsed(deep)) == deep
    assert json_text.parsed("[NaN, 1e999]", finite=False)[1] == float("inf")
    assert json_text.mapping(b"{}") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" * 100_000, "nested more than 100 levels deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested more than 100 levels deep"),
        ("Infinity", "Infinity is not a JSON number"),
        ("[1, NaN]", "NaN is not a JSON number"),
        ("-1e999", "-1e999 is too large for a number"),
        ("9" * 5000, "99999999999999999999... is too large for a number"),
        ('"\\ud800"', "not UTF-8: surrogates not allowed"),
        (b'"K\xf6ln"', "not UTF-8: invalid start byte"),
        ('[{"a": 1, "b": 2, "a": 1}]', "key 'a' appears twice in one object"),
        ("{" + ", ".join(f'"{key}": 1' for key in (*range(200_000), 199_999)) + "}", "key '199999' appears twice"),
        ('{"a"', "Expecting ':' delimiter"),
        ("", "Expecting value"),
    ],
)
def test_what_is_none(text, said):
    with pytest.raises(json_text.NotJson) as raised:
        json_text.parsed(text)
    assert str(raised.value).startswith(said) and str(raised.value).isprintable()


def test_another_value_than_an_object():
    with pytest.raises(json_text.NotJson, match="not an object"):
        json_text.mapping("[1]")


def test_null_stands_for_what_is_not_finite():
    found = json_text.as_json({"a": [float("nan"), 1.0, {"b": float("inf")}], "c": "d", "e": 2})
    assert found == {"a": [None, 1.0, {"b": None}], "c": "d", "e": 2}
