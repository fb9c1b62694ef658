"""Learning rates: the corner points by hand, the rest against NumPy, the same in eager, graph and XLA."""

import math

import numpy as np
import pytest


@pytest.fixture(scope="module")
def schedules(tf):
    from tapeline.recipe import schedules

    return schedules


def every(schedules):
    return [
        schedules.Constant(0.1),
        schedules.PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.1]),
        schedules.PolynomialDecay(0.1, 100, power=2.0),
        schedules.CosineDecay(0.0, 90, warmup_target=0.1, warmup_steps=10),
        schedules.CosineDecayRestarts(0.1, 30),
        schedules.WarmupCosineRestarts(0.1, 30, warmup_steps=7),
        schedules.WarmupCosineRestarts(0.1, 30, warmup_steps=7, t_mul=2, m_mul=0.5, alpha=0.1),
        schedules.Cyclic(0.001, 0.1, step_size=13),
        schedules.Cyclic(0.001, 0.1, step_size=13, mode="triangular2"),
        schedules.Cyclic(0.001, 0.1, step_size=13, mode="exp_range", gamma=0.999),
        schedules.OneCycle(0.1, 100),
        schedules.OneCycle(0.1, 100, anneal="linear", three_phase=True),
    ]


def rates(schedule, steps):
    return np.array([float(schedule(int(step))) for step in steps])


def test_graph_and_xla_give_the_eager_values(tf, schedules):
    steps = np.array([0, 1, 6, 7, 8, 13, 26, 36, 37, 38, 50, 99, 100, 101, 1000, 10**9], np.int64)
    for schedule in every(schedules):
        eager = np.array([schedule(tf.constant(step)).numpy() for step in steps])
        assert eager.dtype == np.float32
        for xla in (False, True):
            traced = tf.function(
                lambda xs, s=schedule: tf.map_fn(s, xs, fn_output_signature=tf.float32), jit_compile=xla
            )
            assert np.allclose(traced(tf.constant(steps)), eager, rtol=1e-6, atol=1e-7), (schedule.get_config(), xla)


def test_every_schedule_comes_back_from_its_config(schedules):
    from keras.optimizers.schedules import deserialize, serialize

    for schedule in every(schedules):
        again = deserialize(serialize(schedule))
        assert again.get_config() == schedule.get_config()
        assert float(again(17)) == float(schedule(17))


@pytest.mark.parametrize(
    ("mode", "cycle_tops"),
    [("triangular", [0.9, 0.9, 0.9]), ("triangular2", [0.9, 0.5, 0.3]), ("exp_range", [0.9**10, 0.9**30, 0.9**50])],
)
def test_cyclic_corner_points(schedules, mode, cycle_tops):
    """From 0.1 at the bottoms 0, 20, 40 to the tops at 10, 30, 50."""
    schedule = schedules.Cyclic(0.1, 0.9, step_size=10, mode=mode, gamma=0.9)
    if mode == "exp_range":
        cycle_tops = [0.1 + 0.8 * scale for scale in cycle_tops]
    assert rates(schedule, (0, 20, 40)) == pytest.approx([0.1] * 3, rel=1e-6)
    assert rates(schedule, (10, 30, 50)) == pytest.approx(cycle_tops, rel=1e-5)


def test_cyclic_is_smiths_formula(schedules):
    """Section 3.2: cycle = floor(1 + t / 2s), x = |t / s - 2 cycle + 1|, base + (max - base) * max(0, 1 - x)."""
    t, s = np.arange(300), 17
    cycle = np.floor(1 + t / (2 * s))
    triangle = np.maximum(0, 1 - np.abs(t / s - 2 * cycle + 1))
    for mode, scale in (("triangular", 1), ("triangular2", 0.5 ** (cycle - 1)), ("exp_range", 0.99**t)):
        schedule = schedules.Cyclic(1e-4, 1e-2, step_size=s, mode=mode, gamma=0.99)
        assert np.allclose(rates(schedule, t), 1e-4 + (1e-2 - 1e-4) * triangle * scale, rtol=1e-5, atol=1e-9)


def test_periods_are_exact_a_billion_steps_on(schedules):
    cyclic = schedules.Cyclic(0.1, 0.9, step_size=7)
    restarts = schedules.WarmupCosineRestarts(0.1, 35, warmup_steps=5)
    for far in (14 * 35 * 2_000_000, 14 * 35 * 10**12):
        steps = np.arange(40)
        assert (rates(cyclic, far + steps) == rates(cyclic, steps)).all()
        assert (rates(restarts, 5 + far + steps) == rates(restarts, 5 + steps)).all()
    grown = schedules.WarmupCosineRestarts(1.0, 1000, t_mul=2)
    begin = 1000 * (2**20 - 1)
    assert rates(grown, (begin - 1, begin)) == pytest.approx([0.0, 1.0], abs=1e-6)


def test_exp_range_keeps_its_precision_over_many_steps(schedules):
    schedule = schedules.Cyclic(0.0, 1.0, step_size=1, mode="exp_range", gamma=0.99994)
    assert rates(schedule, [100_001]) == pytest.approx([0.99994**100_001], rel=1e-5)


def test_warm_up_and_restarts_corner_points(schedules):
    schedule = schedules.WarmupCosineRestarts(0.8, 10, warmup_steps=4, warmup_start=0.2, t_mul=2, m_mul=0.5, alpha=0.25)
    assert rates(schedule, range(5)) == pytest.approx([0.2, 0.35, 0.5, 0.65, 0.8], rel=1e-6)
    # Cycles begin at 4, 14 and 34; half-way the cosine term is a half of the cycle's top.
    top = [0.8 * (0.25 + 0.75 * m) for m in (1, 0.5, 0.25)]
    half = [0.8 * (0.25 + 0.75 * m / 2) for m in (1, 0.5, 0.25)]
    assert rates(schedule, (4, 14, 34)) == pytest.approx(top, rel=1e-6)
    assert rates(schedule, (9, 24, 54)) == pytest.approx(half, rel=1e-6)
    assert rates(schedule, (33,)) == pytest.approx(
        [0.8 * (0.25 + 0.375 * (1 + math.cos(math.pi * 0.95)) / 2)], rel=1e-5
    )


@pytest.mark.parametrize("t_mul", [1, 2, 3])
def test_without_a_warm_up_it_is_keras_own(schedules, t_mul):
    ours = schedules.WarmupCosineRestarts(0.3, 10, t_mul=t_mul, m_mul=0.7, alpha=0.05)
    theirs = schedules.CosineDecayRestarts(0.3, 10, t_mul=float(t_mul), m_mul=0.7, alpha=0.05)
    inside = [step for step in range(200) if step not in {10 * (t_mul**i - 1) // max(1, t_mul - 1) for i in range(9)}]
    inside = [step for step in inside if t_mul > 1 or step % 10]
    assert rates(ours, inside) == pytest.approx(rates(theirs, inside), rel=1e-4)


def test_one_cycle_corner_points(schedules):
    two = schedules.OneCycle(1.0, 100, pct_start=0.3, div_factor=10, final_div_factor=100)
    assert rates(two, (0, 15, 30, 65, 100, 10**9)) == pytest.approx([0.1, 0.55, 1.0, 0.5005, 0.001, 0.001], rel=1e-4)
    three = schedules.OneCycle(
        1.0, 100, pct_start=0.4, div_factor=10, final_div_factor=100, anneal="linear", three_phase=True
    )
    assert rates(three, (0, 20, 40, 60, 80, 90, 100)) == pytest.approx(
        [0.1, 0.55, 1.0, 0.55, 0.1, 0.0505, 0.001], rel=1e-5
    )
    assert [step for step, _ in schedules.OneCycle(1.0, 3, pct_start=0.5, three_phase=True).corners()] == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_an_optimizer_takes_it(tf, schedules, mode):
    """Adam's first updates are each of the learning rate's size, whatever the gradient: m / sqrt(v) is 1."""
    import keras

    schedule = schedules.Cyclic(0.01, 0.05, step_size=2)
    optimizer = keras.optimizers.Adam(schedule, epsilon=1e-12)
    weight = keras.Variable(tf.zeros([1]))
    optimizer.build([weight])

    def step():
        optimizer.apply([tf.constant([3.0])], [weight])
        return tf.identity(weight.value)

    call = step if mode == "eager" else tf.function(step, jit_compile=mode == "xla")
    moves = -np.diff([0.0, *(float(call()[0]) for _ in range(5))])
    assert moves == pytest.approx([0.01, 0.03, 0.05, 0.03, 0.01], rel=1e-4)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: s.Constant(0), "learning_rate is 0: it must be a finite number greater than 0"),
        (lambda s: s.Constant(float("nan")), "learning_rate is nan: "),
        (lambda s: s.Cyclic(0.2, 0.1, step_size=5), "low is 0.2: it must be from 0 to 0.1"),
        (lambda s: s.Cyclic(0.1, 0.2, step_size=0), "step_size is 0: it must be a whole number of at least 1"),
        (lambda s: s.Cyclic(0.1, 0.2, step_size=2.5), "step_size is 2.5: "),
        (lambda s: s.Cyclic(0.1, 0.2, step_size=5, mode="saw"), "mode is 'saw': it must be one of triangular, "),
        (lambda s: s.Cyclic(0.1, 0.2, step_size=5, gamma=1.5), "gamma is 1.5: it must be from 0 to 1"),
        (lambda s: s.OneCycle(0.1, 2), "total_steps is 2: it must be a whole number of at least 3"),
        (lambda s: s.OneCycle(0.1, 10, pct_start=0.6, three_phase=True), "pct_start is 0.6: it must be from 0 to 0.5"),
        (lambda s: s.OneCycle(0.1, 10, div_factor=0.5), "div_factor is 0.5: it must be at least 1"),
        (lambda s: s.OneCycle(0.1, 10, anneal="exp"), "anneal is 'exp': it must be one of cos, linear"),
        (lambda s: s.WarmupCosineRestarts(0.1, 0), "first_decay_steps is 0: "),
        (lambda s: s.WarmupCosineRestarts(0.1, 5, t_mul=1.5), "t_mul is 1.5: it must be a whole number"),
        (lambda s: s.WarmupCosineRestarts(0.1, 5, warmup_start=0.2), "warmup_start is 0.2: it must be from 0 to 0.1"),
    ],
)
def test_a_wrong_argument_is_one_line(schedules, make, said):
    with pytest.raises(ValueError) as raised:
        make(schedules)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)
