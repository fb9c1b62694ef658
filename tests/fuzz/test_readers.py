"""Every reader of what somebody else may have written: a result, or one line of refusal, whatever it is given."""

import pytest

from tests.fuzz.contract import kept
from tests.fuzz.finds import FINDS
from tests.fuzz.parsers import PARSERS
from tests.fuzz.running import short

SLOW = {"dvc": 10, "rwlock": 60, "images": 100, "params": 30, "overrides": 60, "prefect": 60, "dvc_lock": 30}
"""Inputs of the readers that take longer; the others get `MANY`."""
MANY = 200

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie


@pytest.mark.parametrize("name", PARSERS)
def test_a_reader_takes_it_or_refuses_it_in_one_line(name, tmp_path, tf):
    short(PARSERS[name](tmp_path), SLOW.get(name, MANY))


@pytest.mark.parametrize("name", FINDS)
def test_what_broke_it_once(name, tmp_path):
    reader = PARSERS[name](tmp_path)
    for content in FINDS[name]:
        kept(lambda content=content: reader.read(content))
