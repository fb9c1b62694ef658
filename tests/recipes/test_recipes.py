"""What the gallery's recipes claim of themselves, held against an independent computation."""

import gymnasium
import numpy as np
import pytest
from pipelines import PIPELINES, stand_in, without_models

from tapeline.dataset.columns import Dataset
from tapeline.runtime.errors import InputError


@pytest.fixture
def built(tmp_path, tf):
    from tapeline.recipe import loading

    def make(name, **changes):
        folder, entry = PIPELINES[name]
        data = Dataset.open(stand_in(entry["dataset"], tmp_path / name, 8))
        params = {**without_models(entry["params"]), **changes}
        recipe = loading.build(folder / entry["recipe"], params, data.features)
        recipe.configure(batch_size=8)
        return recipe, data

    return make


@pytest.fixture
def context(tf):
    from tapeline.recipe import Context

    return Context(tf.constant(3, tf.int64), tf.constant([1, 2]))


def module(recipe):
    import sys

    return sys.modules[type(recipe).__module__]


def test_the_frechet_distance_of_gaussians_is_their_formula(built, tf):
    distance = module(built("mnist-gan")[0]).frechet_distance
    random = np.random.default_rng(0)
    one = random.normal(0.0, 1.0, (200_000, 3))
    other = random.normal([1.0, 0.0, 2.0], [1.0, 3.0, 0.5], (200_000, 3))
    assert distance(tf.constant(one), tf.constant(one)) == pytest.approx(0.0, abs=1e-9)
    expected = 1 + 4 + (3 - 1) ** 2 + (0.5 - 1) ** 2  # |m1 - m2|² + Σ (s1 - s2)² of independent coordinates
    assert distance(tf.constant(one), tf.constant(other)) == pytest.approx(expected, rel=0.02)


def test_a_judge_sees_which_classes_are_made(built, tf, tmp_path):
    class Judge(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 1), tf.uint8, name="image")])
        def __call__(self, image):
            pixels = tf.reshape(tf.cast(image, tf.float32), [-1, 64])
            return {"class": tf.cast(pixels[:, 0] > 8, tf.int64), "features": pixels[:, :5]}

    judge = Judge()
    tf.saved_model.save(judge, str(tmp_path / "judge"), signatures=judge.__call__)
    recipe, data = built("digits-gan", judge=str(tmp_path / "judge"))
    measured = recipe.evaluate(data.columns("test"))
    assert measured["rarest_class"] == 0.0  # of ten classes two are made
    assert measured["frechet_ratio"] == 1.0  # the generator is untrained yet


def test_a_judge_that_does_more_than_compute_is_refused(built, tf, tmp_path):
    """A judge may be anybody's model, and this one would write a file with the rights of who trains."""
    written = tmp_path / "written"

    class Judge(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 1), tf.uint8, name="image")])
        def __call__(self, image):
            tf.io.write_file(str(written), "pwned")
            pixels = tf.reshape(tf.cast(image, tf.float32), [-1, 64])
            return {"class": tf.cast(pixels[:, 0] > 8, tf.int64), "features": pixels[:, :5]}

    judge = Judge()
    tf.saved_model.save(judge, str(tmp_path / "judge"), signatures=judge.__call__)
    written.unlink(missing_ok=True)
    recipe, data = built("digits-gan", judge=str(tmp_path / "judge"))
    with pytest.raises(InputError, match="the model in .*judge has the operation 'WriteFile' in the function .*"):
        recipe.evaluate(data.columns("test"))
    assert not written.exists()
    tf.saved_model.load(str(tmp_path / "judge")).signatures["serving_default"](image=tf.zeros((1, 8, 8, 1), tf.uint8))
    assert written.exists(), "it would have"
    recipe, _ = built("digits-gan", judge=str(tmp_path / "none"))
    with pytest.raises(InputError, match="none is not a folder with a SavedModel"):
        recipe.evaluate(data.columns("test"))


def test_the_carts_dynamics_are_gymnasiums(built, tf):
    moved = module(built("cartpole-reinforce")[0]).moved
    world = gymnasium.make("CartPole-v1").unwrapped
    world.reset(seed=0)
    random = np.random.default_rng(0)
    states = random.uniform([-2.0, -2, -0.2, -2], [2.0, 2, 0.2, 2], (200, 4)).astype(np.float32)
    right = random.integers(0, 2, 200)
    after = moved(tf.constant(states), tf.constant(right == 1)).numpy()
    for state, action, found in zip(states, right, after, strict=True):
        world.state, world.steps_beyond_terminated = state.astype(np.float64), None
        assert np.allclose(found, world.step(int(action))[0], atol=1e-5)


def test_an_episode_ends_where_gymnasium_ends_it(built, tf, context):
    recipe, _ = built("cartpole-reinforce")
    batch = recipe.prepare({}, context)
    _, pushes, alive = recipe.play(batch["state"], batch["draws"])
    for number in range(8):
        world = gymnasium.make("CartPole-v1")
        world.reset(seed=0)
        world.unwrapped.state = batch["state"][number].numpy().astype(np.float64)
        steps, over = 0, False
        while not over:
            _, _, fell, long, _ = world.step(int(pushes[steps, number]))
            steps, over = steps + 1, fell or long
        assert float(alive[:, number].numpy().sum()) == steps


def test_returns_are_discounted_sums_of_what_follows(built, tf):
    recipe, _ = built("cartpole-reinforce", discount=0.5)
    rewards = np.zeros((500, 1), np.float32)
    rewards[:3] = 1.0
    assert recipe.discounted(tf.constant(rewards)).numpy()[:4, 0].tolist() == [1.75, 1.5, 1.0, 0.0]


def test_adapting_is_one_gradient_step_on_each_task_by_itself(built, tf):
    recipe, data = built("sinusoid-maml")
    x, y = (tf.constant(data.column("test", name)) for name in ("support_x", "support_y"))
    together = recipe.adapt(x, y)
    for task in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(module(recipe).network(recipe.weights, x[task]) - y[task]))
        gradients = tape.gradient(loss, recipe.weights)
        for all_tasks, weight, gradient in zip(together, recipe.weights, gradients, strict=True):
            assert np.allclose(all_tasks[task], weight - 0.01 * gradient, atol=1e-6)


def test_the_outer_gradient_is_of_second_order(built, tf, context):
    """A numerical derivative of the loss after adapting, along the gradient, is the gradient's norm squared."""
    recipe, _ = built("sinusoid-maml", inner_rate=0.1)
    batch = recipe.prepare({}, context)

    def loss():
        return tf.reduce_mean(recipe.eval_step(batch, context)["loss"])

    with tf.GradientTape() as tape:
        objective = loss()
    gradients = tape.gradient(objective, recipe.weights)
    square = sum(float(tf.reduce_sum(gradient**2)) for gradient in gradients)
    small = 1e-3 / np.sqrt(square)
    ends = []
    for sign in (1, -2):
        for weight, gradient in zip(recipe.weights, gradients, strict=True):
            weight.assign_add(sign * small * gradient)
        ends.append(float(loss()))
    assert (ends[0] - ends[1]) / (2 * small) == pytest.approx(square, rel=0.02)


def test_forced_characters_are_the_right_ones(built, tf):
    """Forced everywhere, the decoder's later logits depend on the given answer; unforced they do not."""
    recipe, data = built("addition-seq2seq")
    question = tf.constant(data.column("test", "question"))
    one, other = (tf.constant([list(text)] * 5, tf.uint8) for text in (b"1111", b"9999"))
    everywhere, nowhere = tf.fill([5, 4], True), tf.fill([5, 4], False)
    first, second = recipe.decode(question, one, everywhere), recipe.decode(question, other, everywhere)
    assert np.array_equal(first[:, -1], second[:, -1])  # written first, before anything was fed back
    assert not np.allclose(first[:, 0], second[:, 0])
    free = recipe.decode(question)
    assert np.array_equal(recipe.decode(question, one, nowhere), free)


def test_the_ratio_of_forced_characters_falls(built, tf):
    from tapeline.recipe import Context

    recipe, _ = built("addition-seq2seq", first_ratio=1.0, forcing_steps=100)
    batch = {"answer": tf.zeros([2000, 4], tf.uint8)}
    for step, ratio in ((0, 1.0), (50, 0.5), (100, 0.0), (500, 0.0)):
        forced = recipe.prepare(batch, Context(tf.constant(step, tf.int64), tf.constant([0, 0])))["forced"]
        assert float(tf.reduce_mean(tf.cast(forced, tf.float32))) == pytest.approx(ratio, abs=0.03)
