"""Add three-digit numbers as text: an encoder-decoder with scheduled teacher forcing (Bengio et al. 2015).

`question` (batch, 7) and `answer` (batch, 4) are ASCII codes, "123+989" and "1112". The encoder reads the question
backwards; the decoder writes the answer a character at a time and is fed the right one before with probability
`ratio`, else its own. The ratio falls linearly to `last_ratio` in `forcing_steps`; evaluation and the exported model
run freely. https://arxiv.org/abs/1506.03099
"""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field

ALPHABET = b" +0123456789"
START = len(ALPHABET)


class AdditionSeq2seq(Supervised):
    inputs = ("question",)
    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.002, gt=0)
        units: int = field(128, gt=0)
        first_ratio: float = field(1.0, ge=0, le=1)  # of characters that are forced
        last_ratio: float = field(0.0, ge=0, le=1)
        forcing_steps: int = field(1000, gt=0)
        decay_steps: int = field(3000, gt=0)

    def build(self):
        params = self.params
        self.encoder = keras.layers.LSTM(params.units, return_state=True, go_backwards=True, unroll=True)
        self.decoder = keras.layers.LSTMCell(params.units)
        self.output = keras.layers.Dense(len(ALPHABET))
        self.encoder.build((None, None, len(ALPHABET)))
        self.decoder.build((None, START + 1))
        self.output.build((None, params.units))
        rate = keras.optimizers.schedules.CosineDecay(params.learning_rate, params.decay_steps)
        self.optimizer = keras.optimizers.Adam(rate)
        self.ratio = keras.optimizers.schedules.PolynomialDecay(
            params.first_ratio, params.forcing_steps, params.last_ratio
        )

    @property
    def variables(self):
        layers = (self.encoder, self.decoder, self.output)
        return [variable for layer in layers for variable in layer.trainable_variables]

    def prepare(self, batch, context):
        draws = tf.random.stateless_uniform(tf.shape(batch["answer"]), context.seed)
        return {**batch, "forced": draws < self.ratio(context.step)}

    def decode(self, question, answer=None, forced=None):
        """Return logits (batch, 4, characters); characters of `answer` are fed back where `forced`, else own ones."""
        _, *state = self.encoder(tf.one_hot(codes(question), len(ALPHABET)))
        fed, steps = tf.fill(tf.shape(question)[:1], START), []
        for place in range(self.features["answer"].shape[0]):
            hidden, state = self.decoder(tf.one_hot(fed, START + 1), state)
            steps.append(self.output(hidden))
            fed = tf.argmax(steps[-1], -1, tf.int32)
            if forced is not None:
                fed = tf.where(forced[:, place], codes(answer)[:, -1 - place], fed)
        return tf.stack(steps[::-1], axis=1)

    def loss(self, batch, *, training):
        logits = self.decode(batch["question"], batch["answer"], batch["forced"] if training else None)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(codes(batch["answer"]), logits)
        right = tf.equal(tf.argmax(logits, -1, tf.int32), codes(batch["answer"]))
        return tf.reduce_mean(losses, -1), {"exact": tf.reduce_all(right, -1)}

    def predict(self, inputs):
        written = tf.argmax(self.decode(inputs["question"]), -1)
        return {"answer": tf.gather(tf.constant(list(ALPHABET), tf.uint8), written)}


def codes(text):
    """Return ASCII codes as places in the alphabet, int32; an unknown character is a space."""
    return tf.gather(tf.constant([max(0, ALPHABET.find(code)) for code in range(256)]), tf.cast(text, tf.int32))
