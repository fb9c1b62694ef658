"""Read and compute almost nothing: the mean brightness of each image, sampled in every `every`-th row and column.

With `crop`, an image is cropped to that size at a random position and flipped at random. The random values are drawn
outside the step, the pixels are moved inside it.
"""

import tensorflow as tf

from tapeline.recipe import Recipe, RecipeParams, field


class Reading(Recipe):
    modes = {"graph": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        crop: int = field(0, ge=0)
        every: int = field(1, gt=0)

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
        every = self.params.every
        return tf.reduce_mean(tf.cast(images[:, ::every, ::every], tf.float32), [1, 2, 3]) / 255.0

    def cropped(self, batch):
        """Crop and flip image by image, unrolled: `tf.map_fn` takes one and a half times as long."""
        crop = self.params.crop

        def one(image, top, left, mirrored):
            image = tf.slice(image, [top, left, 0], [crop, crop, 3])
            return tf.cond(mirrored > 0, lambda: tf.reverse(image, [1]), lambda: image)  # [:, ::-1] takes 5 × as long

        columns = [tf.unstack(batch[name]) for name in ("image", "top", "left", "mirrored")]
        return tf.stack([one(*values) for values in zip(*columns, strict=True)])
