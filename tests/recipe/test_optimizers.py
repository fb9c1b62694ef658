"""Keras' optimizers by name."""

import pytest

from tapeline.runtime.errors import InputError


@pytest.fixture(scope="module")
def optimizer(tf):
    from tapeline.recipe import optimizer

    return optimizer


@pytest.mark.parametrize("name", ["adam", "AdamW", "SGD", "rmsprop", "lion", "muon", "adafactor"])
def test_by_name(optimizer, name):
    made = optimizer(name, 0.25)
    assert type(made).__name__.lower() == name.lower()
    assert float(made.learning_rate) == 0.25


def test_options_and_schedules(optimizer):
    from tapeline.recipe import schedules

    made = optimizer("sgd", schedules.Cyclic(0.1, 0.5, step_size=10), momentum=0.9)
    assert made.momentum == 0.9
    assert float(made.learning_rate) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("adm", {}, "no optimizer 'adm' in Keras .*; did you mean 'adam'?"),
        ("zzz", {}, "choose from adadelta, adafactor, adagrad, adam"),
        ("sgd", {"momentums": 1}, "optimizer 'sgd': Argument"),
        ("sgd", {"momentum": 2.0}, "optimizer 'sgd': `momentum` must be"),
    ],
)
def test_unknown(optimizer, name, options, said):
    with pytest.raises(InputError, match=said):
        optimizer(name, 0.1, **options)
