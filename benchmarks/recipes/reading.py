"""Read and do next to nothing: the mean brightness of each image, and a count of the steps.

With `crop` an image is cut to that size at a random place and mirrored by a coin. The draws are made outside of the
step, the pixels are moved inside it.
"""

import tensorflow as tf

from tapeline.recipe import Recipe, RecipeParams, field


class Reading(Recipe):
    modes = {"graph": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        crop: int = field(0, ge=0)

    def build(self):
        self.height, self.width, _ = self.features["image"].shape
        self.steps = tf.Variable(0, dtype=tf.int64)

    def prepare(self, batch, context):
        crop = self.params.crop
        if not crop:
            return batch
        size = tf.shape(batch["label"])
        seeds = tf.random.split(context.seed, 3)
        draw = tf.random.stateless_uniform
        return {
            **batch,
            "top": draw(size, seeds[0], 0, self.height - crop + 1, tf.int32),
            "left": draw(size, seeds[1], 0, self.width - crop + 1, tf.int32),
            "mirrored": draw(size, seeds[2], 0, 2, tf.int32),
        }

    def train_step(self, batch, context):
        self.steps.assign_add(1)
        return {"loss": self.brightness(self.cropped(batch) if self.params.crop else batch["image"])}

    def eval_step(self, batch, context):
        return {"loss": self.brightness(batch["image"])}

    def brightness(self, images):
        return tf.reduce_mean(tf.cast(images, tf.float32), [1, 2, 3]) / 255.0

    def cropped(self, batch):
        crop = self.params.crop

        def one(inputs):
            image, top, left, mirrored = inputs
            image = tf.slice(image, [top, left, 0], [crop, crop, 3])
            return tf.cond(
                mirrored > 0, lambda: tf.reverse(image, [1]), lambda: image
            )  # image[:, ::-1] takes 5 × as long

        inputs = tuple(batch[name] for name in ("image", "top", "left", "mirrored"))
        kind = tf.TensorSpec((crop, crop, 3), tf.uint8)
        return tf.map_fn(one, inputs, fn_output_signature=kind, parallel_iterations=16)
