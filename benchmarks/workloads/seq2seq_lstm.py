"""An encoder-decoder of two LSTMs (128 units) on seven and four characters, batches of 128, teacher forcing 0.5."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers import ceiling, engine, jax_scan, keras_fit, torch_loop
from benchmarks.workload import PACKAGE_RECIPES, Arrays, Recipe, Workload

RATE, EPSILON, RATIO, UNITS, PLACES = 0.002, 1e-7, 0.5, 128, 4
ALPHABET = b" +0123456789"
START = len(ALPHABET)
CODES = np.array([max(0, ALPHABET.find(code)) for code in range(256)], np.int64)
RECIPE = Recipe(
    path=PACKAGE_RECIPES / "addition_seq2seq.py",
    # Constant, so that rate and ratio do not change during the measurement.
    params={"first_ratio": RATIO, "last_ratio": RATIO, "decay_steps": 10**9},
    train={"batch_size": 128, "compile": "xla"},
)
GRAPH = RECIPE.having(compile="graph")
FUSED = GRAPH.having(fused=True)
SHARDED = FUSED.having(shards=2)

BATCH, CELLS = RECIPE.train["batch_size"], 7 + PLACES
PRODUCTS = CELLS * [(BATCH, UNITS, 4 * UNITS), (BATCH, 4 * UNITS, UNITS), (UNITS, BATCH, 4 * UNITS)]
"""Each cell's hidden state by its weights, and both gradients; one-hot characters and the output are left out."""


def sums() -> Arrays:
    """Return questions, uint8 (examples, 7), and answers, uint8 (examples, 4), as ASCII codes."""
    pairs = np.random.default_rng(0).integers(100, 1000, (12_800, 2)).tolist()
    texts = {
        "question": [f"{first}+{second}" for first, second in pairs],
        "answer": [str(first + second).ljust(PLACES) for first, second in pairs],
    }
    return {name: np.array([list(text.encode()) for text in column], np.uint8) for name, column in texts.items()}


def keras_model(weights: Arrays) -> tuple[Any, dict[str, Any]]:
    """Return Keras layers in a model with its own `train_step`."""
    import keras
    import tensorflow as tf

    class Seq2seq(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.layers.LSTM(UNITS, return_state=True, go_backwards=True, unroll=True)
            self.decoder = keras.layers.LSTMCell(UNITS)
            self.output_layer = keras.layers.Dense(START)
            self.encoder.build((None, None, START))
            self.decoder.build((None, START + 1))
            self.output_layer.build((None, UNITS))
            self.mean, self.exact = keras.metrics.Mean(name="loss"), keras.metrics.Mean(name="exact")
            self.codes = tf.constant(CODES, tf.int32)
            self.built = True

        @property
        def metrics(self) -> list[Any]:
            return [self.mean, self.exact]

        def train_step(self, data: Any) -> dict[str, Any]:
            (given,) = data if len(data) == 1 else (data,)
            question, answer, *drawn = given
            forced = drawn[0] if drawn else tf.random.uniform(tf.shape(answer)) < RATIO
            question, answer = (tf.gather(self.codes, tf.cast(text, tf.int32)) for text in (question, answer))
            with tf.GradientTape() as tape:
                _, *state = self.encoder(tf.one_hot(question, START))
                fed, steps = tf.fill(tf.shape(question)[:1], START), []
                for place in range(PLACES):
                    hidden, state = self.decoder(tf.one_hot(fed, START + 1), state)
                    steps.append(self.output_layer(hidden))
                    fed = tf.where(forced[:, place], answer[:, -1 - place], tf.argmax(steps[-1], -1, tf.int32))
                logits = tf.stack(steps[::-1], axis=1)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(answer, logits))
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            self.mean.update_state(loss)
            right = tf.equal(tf.argmax(logits, -1, tf.int32), answer)
            self.exact.update_state(tf.cast(tf.reduce_all(right, -1), tf.float32))
            return {metric.name: metric.result() for metric in self.metrics}

    model = Seq2seq()
    encoder, decoder, output = parts(weights)
    for layer, values in ((model.encoder, encoder), (model.decoder, decoder), (model.output_layer, output)):
        layer.set_weights(values)
    return model, {"optimizer": keras.optimizers.Adam(RATE)}


def parts(weights: Arrays) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the weights of the encoder, the decoder and the output: kernel, recurrent kernel and bias of an LSTM."""
    encoder, decoder, output = (
        [value for name, value in weights.items() if name.startswith(part)]
        for part in ("encoder/", "decoder/", "output/")
    )
    return encoder, decoder, output


def torch_build(weights: Arrays, compiled: Any) -> Any:
    """Return the step: PyTorch's LSTM encodes the question; an LSTM cell decodes, since it reads its own output."""
    import torch

    encoder, decoder, (kernel, bias) = parts(weights)
    module = torch.nn.ModuleDict(
        {"encoder": lstm(torch.nn.LSTM(START, UNITS, batch_first=True), encoder, "_l0")}
        | {"decoder": lstm(torch.nn.LSTMCell(START + 1, UNITS), decoder, ""), "output": torch.nn.Linear(UNITS, START)}
    )
    with torch.no_grad():
        module["output"].weight.copy_(torch.from_numpy(kernel.T.copy()))
        module["output"].bias.copy_(torch.from_numpy(bias))
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=RATE, eps=EPSILON, fused=True)
    codes, one_hot = torch.from_numpy(CODES), torch.nn.functional.one_hot

    def loss_of(question: Any, answer: Any, forced: Any) -> Any:
        question, answer = codes[question.long()], codes[answer.long()]
        _, (hidden, cell) = module["encoder"](one_hot(question.flip(1), START).float())
        state, fed, steps = (hidden[0], cell[0]), torch.full((len(question),), START), []
        for place in range(PLACES):
            state = module["decoder"](one_hot(fed, START + 1).float(), state)
            steps.append(module["output"](state[0]))
            fed = torch.where(forced[:, place], answer[:, -1 - place], steps[-1].argmax(-1))
        logits = torch.stack(steps[::-1], 1)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), answer.flatten())

    forward = compiled(loss_of)

    def step(question: Any, answer: Any, forced: Any = None) -> Mapping[str, Any]:
        forced = torch.rand(answer.shape) < RATIO if forced is None else forced
        optimizer.zero_grad(set_to_none=True)
        loss = forward(question, answer, forced)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    return step


def lstm(module: Any, weights: list[Any], suffix: str) -> Any:
    """Set TensorFlow's weights. PyTorch adds two biases: the second stays zero and is not trained."""
    import torch

    kernel, recurrent, bias = weights
    values = {"weight_ih": kernel.T.copy(), "weight_hh": recurrent.T.copy(), "bias_ih": bias, "bias_hh": 0 * bias}
    with torch.no_grad():
        for name, value in values.items():
            getattr(module, name + suffix).copy_(torch.from_numpy(value))
    getattr(module, "bias_hh" + suffix).requires_grad_(False)
    return module


def jax_model(weights: Arrays) -> Any:
    """Return the same as a pure function, with the eleven cells unrolled."""
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(RATE, eps=EPSILON)
    parameters = [[jnp.asarray(value) for value in part] for part in parts(weights)]
    codes = jnp.asarray(CODES, jnp.int32)

    def cell(part: Any, x: Any, hidden: Any, memory: Any) -> Any:
        kernel, recurrent, bias = part
        i, f, g, o = jnp.split(x @ kernel + hidden @ recurrent + bias, 4, axis=1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(memory), memory

    def loss_of(parameters: Any, question: Any, answer: Any, forced: Any) -> Any:
        encoder, decoder, (kernel, bias) = parameters
        hidden = memory = jnp.zeros((question.shape[0], UNITS))
        for place in reversed(range(question.shape[1])):
            hidden, memory = cell(encoder, jax.nn.one_hot(question[:, place], START), hidden, memory)
        fed, steps = jnp.full(question.shape[:1], START), []
        for place in range(PLACES):
            hidden, memory = cell(decoder, jax.nn.one_hot(fed, START + 1), hidden, memory)
            steps.append(hidden @ kernel + bias)
            fed = jnp.where(forced[:, place], answer[:, -1 - place], steps[-1].argmax(-1))
        logits = jnp.stack(steps[::-1], 1)
        return optax.softmax_cross_entropy_with_integer_labels(logits, answer).mean()

    def update(state: Any, question: Any, answer: Any, forced: Any) -> Any:
        parameters, moments = state
        texts = codes[question], codes[answer]
        loss, gradients = jax.value_and_grad(loss_of)(parameters, *texts, forced)
        updates, moments = optimizer.update(gradients, moments)
        return (optax.apply_updates(parameters, updates), moments), {"loss": loss}

    return (parameters, optimizer.init(parameters)), update


def coins_ahead(random: np.random.Generator, steps: int, batch: int) -> Arrays:
    """Draw an epoch's teacher-forcing decisions at once."""
    return {"forced": random.random((steps, batch, PLACES), np.float32) < RATIO}


NAMES = ("question", "answer")
WORKLOAD = Workload(
    name="seq2seq_lstm",
    title="seq2seq LSTM 128, batch 128",
    recipe=RECIPE,
    columns=sums,
    contenders=[
        engine.contender(RECIPE),
        engine.contender(GRAPH),
        engine.contender(FUSED),
        engine.contender(SHARDED),
        *keras_fit.contenders(keras_model, inputs=NAMES, target=None),
        *torch_loop.contenders(torch_build, names=NAMES),
        jax_scan.contender(jax_model, names=NAMES, draw=coins_ahead),
        ceiling.products(PRODUCTS),
    ],
    targets={keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3, jax_scan.FAMILY: 1.3},
)
