"""The articles' own eager loops beside the pipelines' engine, over the same batches, for a hundred updates.

Before each update the engine's state is set to the loop's, and that one update must agree: Adam amplifies rounding
where a gradient is near zero, so that free-running trajectories of chaotic training drift apart. Where training is not
chaotic the whole trajectory must agree too. MNIST and CIFAR-10 are stood in for by random images of their shape.
"""

import numpy as np
import pytest
from pipelines import PIPELINES, stand_in, without_models

from tapeline.config.train import TrainSettings

UPDATES = 100
CANCELLED = 2e-7
"""What rounding leaves of a gradient whose terms, of size 1, cancel: that of the discriminator's one output bias."""


class Loop:
    """What the articles have in common: models, optimizers, and a step that says its losses and gradients."""

    def __init__(self, tf, *trained):
        """trained: (optimizer, variables) in the order in which the step applies them."""
        self.tf, self.trained = tf, trained
        # In a graph x / 255 becomes x * (1 / 255), which differs in the last bit and now and then flips a maximum: the
        # loop gets the pixels that the engine sees.
        self.pixels = tf.function(lambda image: tf.cast(image, tf.float32) / 255.0)
        for optimizer, variables in trained:
            optimizer.build(variables)

    def apply(self, *gradients):
        for (optimizer, variables), some in zip(self.trained, gradients, strict=True):
            optimizer.apply_gradients(zip(some, variables, strict=True))
        return [gradient for some in gradients for gradient in some]

    @property
    def weights(self):
        return [variable for _, variables in self.trained for variable in variables]

    @property
    def state(self):
        return [*self.weights, *(variable for optimizer, _ in self.trained for variable in optimizer.variables)]


class Plane(Loop):
    """Two variables, the mean squared error, and gradient descent at 0.01."""

    metric = "loss"

    def __init__(self, tf, keras):
        self.w, self.b = tf.Variable(tf.random.normal([2, 1])), tf.Variable(tf.zeros([1]))
        super().__init__(tf, (keras.optimizers.SGD(0.01), [self.b, self.w]))

    def step(self, batch):
        with self.tf.GradientTape() as tape:
            predicted = self.tf.matmul(batch["x"], self.w) + self.b
            loss = self.tf.reduce_mean(self.tf.square(batch["y"] - predicted))
        return {"loss": loss}, self.apply(tape.gradient(loss, [self.b, self.w]))


class ModuleMlp(Loop):
    """784-128-10 out of four variables, one-hot labels, Adam at 0.001."""

    def __init__(self, tf, keras):
        self.w1, self.b1 = tf.Variable(tf.random.normal([784, 128])), tf.Variable(tf.zeros([128]))
        self.w2, self.b2 = tf.Variable(tf.random.normal([128, 10])), tf.Variable(tf.zeros([10]))
        super().__init__(tf, (keras.optimizers.Adam(0.001), [self.b1, self.b2, self.w1, self.w2]))

    def step(self, batch):
        tf = self.tf
        x = tf.reshape(self.pixels(batch["image"]), [-1, 784])
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.nn.relu(tf.matmul(x, self.w1) + self.b1), self.w2) + self.b2
            labels = tf.one_hot(batch["label"], 10)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))
        return {"loss": loss}, self.apply(tape.gradient(loss, self.weights))


class KerasLoop(Loop):
    """A Keras model, sparse cross-entropy from logits, and an optimizer."""

    def __init__(self, tf, keras, model, optimizer):
        self.model, self.loss = model, keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        super().__init__(tf, (optimizer, model.trainable_variables))

    def step(self, batch):
        tf = self.tf
        images = self.pixels(batch["image"])
        with tf.GradientTape() as tape:
            logits = self.model(tf.reshape(images, [-1, *self.model.input_shape[1:]]), training=True)
            loss = self.loss(batch["label"], logits)
        return {"loss": loss}, self.apply(tape.gradient(loss, self.weights))


def functional_mlp(tf, keras):
    inputs = keras.Input(shape=(784,))
    hidden = keras.layers.Dense(64, activation="relu")(inputs)
    hidden = keras.layers.Dense(64, activation="relu")(hidden)
    model = keras.Model(inputs=inputs, outputs=keras.layers.Dense(10)(hidden))
    return KerasLoop(tf, keras, model, keras.optimizers.SGD(learning_rate=1e-3))


def convolutions(tf, keras):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, (3, 3), activation="relu"),
            layers.MaxPooling2D((2, 2)),
            layers.Conv2D(64, (3, 3), activation="relu"),
            layers.MaxPooling2D((2, 2)),
            layers.Conv2D(64, (3, 3), activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    assert model.count_params() == 122_570
    return KerasLoop(tf, keras, model, keras.optimizers.Adam())


class Adversaries(Loop):
    """A generator and a discriminator, two tapes, two Adams; pixels are scaled to the range of tanh."""

    def __init__(self, tf, keras, pixels=784, white=255, rate=0.0002, beta_1=0.9):
        self.white = white
        self.generator, self.discriminator = (
            [
                tf.Variable(tf.random.normal(shape) * 0.1)
                for shape in ([hidden], [outputs], [inputs, hidden], [hidden, outputs])
            ]
            for inputs, hidden, outputs in ((100, 128, pixels), (pixels, 128, 1))
        )
        adams = [keras.optimizers.Adam(learning_rate=rate, beta_1=beta_1) for _ in range(2)]
        super().__init__(tf, (adams[0], self.generator), (adams[1], self.discriminator))

    def layers(self, variables, x):
        b1, b2, w1, w2 = variables
        return self.tf.matmul(self.tf.nn.relu(self.tf.matmul(x, w1) + b1), w2) + b2

    def step(self, batch):
        tf, entropy = self.tf, self.tf.nn.sigmoid_cross_entropy_with_logits
        size = batch["image"].shape[0]
        real_images = tf.cast(tf.reshape(batch["image"], [size, -1]), tf.float32) / (self.white / 2) - 1.0
        with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
            fake_images = tf.nn.tanh(self.layers(self.generator, batch["noise"]))
            real, fake = self.layers(self.discriminator, real_images), self.layers(self.discriminator, fake_images)
            g_loss = tf.reduce_mean(entropy(labels=tf.ones_like(fake), logits=fake))
            real_loss = tf.reduce_mean(entropy(labels=tf.ones_like(real), logits=real))
            d_loss = real_loss + tf.reduce_mean(entropy(labels=tf.zeros_like(fake), logits=fake))
        gradients = g_tape.gradient(g_loss, self.generator), d_tape.gradient(d_loss, self.discriminator)
        return {"generator_loss": g_loss, "discriminator_loss": d_loss}, self.apply(*gradients)


def small_adversaries(tf, keras):
    return Adversaries(tf, keras, pixels=64, white=16, beta_1=PIPELINES["digits-gan"][1]["params"]["beta_1"])


ARTICLES = {
    "linear-regression": Plane,
    "mnist-mlp-module": ModuleMlp,
    "mnist-mlp": functional_mlp,
    "cifar10-cnn": convolutions,
    "mnist-gan": Adversaries,
    "digits-gan": small_adversaries,
}
NOT_CHAOTIC = ("linear-regression", "mnist-mlp-module", "mnist-mlp")
MODES = [(name, mode) for name in ARTICLES for mode in ("graph", "xla") if (name, mode) != ("cifar10-cnn", "xla")]
LARGE = ("cifar10-cnn", "mnist-gan", "digits-gan")
CASES = [pytest.param(*pair, marks=pytest.mark.slow if pair[1] == "xla" or pair[0] in LARGE else ()) for pair in MODES]


class Side:
    """A pipeline's engine, one update at a time, its gradients written down as they go into `update`."""

    def __init__(self, name, mode, data, monkeypatch, tf):
        from tapeline.dataset.columns import Dataset
        from tapeline.recipe import Recipe
        from tapeline.train.assembly import assemble

        configure, update = Recipe.configure, Recipe.update

        def prepared(recipe, **options):
            configure(recipe, **options)
            recipe.noted = {}
            for optimizer in recipe.optimizers():
                trained = self._trained(recipe, optimizer)
                recipe.noted[optimizer] = [tf.Variable(tf.zeros(v.shape), name="noted") for v in trained]

        def noting(recipe, optimizer, variables, gradients):
            attribute = next(name for name, value in recipe.optimizers().items() if value is optimizer)
            for variable, gradient in zip(recipe.noted[attribute], gradients, strict=True):
                variable.assign(gradient)
            update(recipe, optimizer, variables, gradients)

        monkeypatch.setattr(Recipe, "configure", prepared)
        monkeypatch.setattr(Recipe, "update", noting)
        folder, entry = PIPELINES[name]
        params = without_models(entry["params"])
        settings = entry["train"] | {"epochs": 25, "compile": mode}
        settings = TrainSettings.model_validate(settings)
        self.parts = assemble(folder / entry["recipe"], params, settings, Dataset.open(data))
        self.chunk = next(self.parts.feed.chunks(0, UPDATES))
        self.recipe, self.tf = self.parts.recipe, tf

    def _trained(self, recipe, optimizer):
        model = getattr(
            recipe,
            {"generator_optimizer": "generator", "discriminator_optimizer": "discriminator"}.get(optimizer, "model"),
        )
        return model.trainable_variables

    @property
    def weights(self):
        return [v for optimizer in self.recipe.optimizers() for v in self._trained(self.recipe, optimizer)]

    @property
    def state(self):
        return [*self.weights, *(v for optimizer in self.recipe.optimizers().values() for v in optimizer.variables)]

    @property
    def gradients(self):
        return [variable for noted in self.recipe.noted.values() for variable in noted]

    def batch(self, step):
        return self.parts.feed.batch(self.chunk.rows, self.parts.feed.columns, self.tf.constant(step))

    def update(self, start, end):
        """Run the compiled loop; return the mean of each metric over its steps."""
        names = self.parts.loop.names
        assert end <= self.chunk.end
        totals = np.zeros((len(names), 2))
        while start < end:
            stop = min(end, self.parts.loop.next_stop(start))
            start, table, finite = self.parts.loop(
                self.chunk, start, stop, self.tf.zeros([len(names), 2], self.tf.float64)
            )
            assert finite
            totals += table.numpy().sum(0)
        return {name: total / count for name, (total, count) in zip(names, totals, strict=True)}


@pytest.fixture
def sides(tmp_path, tf, monkeypatch):
    import keras

    def make(name, mode):
        _, entry = PIPELINES[name]
        data = stand_in(entry["dataset"], tmp_path / "data", entry["train"]["batch_size"])
        engine = Side(name, mode, data, monkeypatch, tf)
        keras.utils.set_random_seed(7)
        return engine, ARTICLES[name](tf, keras)

    return make


def copy(source, target):
    """Set the state of one side to that of the other."""
    assert [tuple(v.shape) for v in source] == [tuple(v.shape) for v in target]
    for a, b in zip(source, target, strict=True):
        b.assign(a)


def away(found, wanted, of=None):
    """Return how far two tensors are apart, against the norm of the wanted one or of another."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    norm = np.linalg.norm(wanted if of is None else of)
    return np.linalg.norm(found - wanted) / norm if norm else np.linalg.norm(found - wanted)


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_each_update_is_the_articles(sides, name, mode):
    engine, article = sides(name, mode)
    close = 1e-4 if mode == "graph" else 1e-3
    for step in range(UPDATES):
        copy(article.state, engine.state)
        before = [variable.numpy() for variable in article.weights]
        measured = engine.update(step, step + 1)
        losses, gradients = article.step(engine.batch(step))
        for metric, loss in losses.items():
            assert abs(measured[metric] - float(loss)) <= close * abs(float(loss)), (step, metric)
        for found, wanted in zip(engine.gradients, gradients, strict=True):
            assert away(found, wanted) <= close or np.abs(found.numpy() - wanted).max() <= CANCELLED, step
        for found, wanted, start in zip(engine.weights, article.weights, before, strict=True):
            assert away(found, wanted, of=wanted.numpy() - start) <= 1e-2, step


@pytest.mark.parametrize(("name", "mode"), [case for case in CASES if case.values[0] in NOT_CHAOTIC])
def test_the_whole_way_is_the_articles(sides, name, mode):
    engine, article = sides(name, mode)
    copy(article.state, engine.state)
    start = [variable.numpy() for variable in article.weights]
    for begin in range(0, UPDATES, 20):
        engine.update(begin, begin + 20)
        for step in range(begin, begin + 20):
            article.step(engine.batch(step))
        for found, wanted, first in zip(engine.weights, article.weights, start, strict=True):
            assert away(found, wanted, of=wanted.numpy() - first) <= 1e-3, begin
