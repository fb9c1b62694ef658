"""Each shard draws numbers of its own."""

import pytest

DRAWS = [
    "keras.random.uniform([4], seed=generator)",
    "keras.random.dropout(tf.ones([4, 100]), 0.5, seed=generator)",
    "tf.image.random_brightness(tf.zeros([2, 2, 3]), 0.5)",
    "tf.random.stateless_uniform([4], context.seed)",
    "tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x + keras.random.uniform([4], seed=generator)),"
    " (0, tf.zeros([4])))[1]",
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("eager", [False, True])
def test_each_shard_draws_numbers_of_its_own(tf, draw, eager):
    import keras

    from tapeline.recipe import Context
    from tapeline.train.engine.sharded import Sharded

    class Holder:
        pass

    holder = Holder()
    holder.generator = generator = keras.random.SeedGenerator(1)

    def drawn(count):
        sharded = Sharded(holder, count, at_once=None)

        def both():
            found = []

            def step(part, context):
                place = {"tf": tf, "keras": keras, "context": context, "generator": generator}
                found.append([eval(draw, place) for _ in range(2)])
                return {"loss": tf.zeros([1])}

            sharded(step, lambda number: {}, Context(tf.constant(5, tf.int64), tf.constant([7, 0])), [])
            return found

        run = both if eager else tf.function(both, autograph=False)
        return [[one.numpy().tobytes() for one in shard] for shard in run()]

    two, three = drawn(2), drawn(3)
    assert two == three[:2], "a shard's draws are those of its number"
    seeded = "context.seed" in draw
    assert len({one for shard in three for one in shard}) == (3 if seeded else 6)
