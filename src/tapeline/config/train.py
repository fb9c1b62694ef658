"""`pipelines.<name>.train` in `params.yaml`. No TensorFlow here: a wrong value is reported in milliseconds."""

from collections.abc import Collection
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from tapeline.config.hyperparameters import Transforms
from tapeline.runtime import arithmetic
from tapeline.runtime.errors import InputError

Compile = Literal["eager", "graph", "xla"]
Precision = Literal["float32", "mixed_bfloat16"]
Bits = Literal["portable", "native"]
Promise = Literal["portable", "capped", "native"]

MOST_THREADS = 1024
"""The most threads that an operation can be cut for."""


class Section(BaseModel):
    """A part of `params.yaml`: unknown keys and values of the wrong type are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Best(Section):
    """Keep the weights of the validation with the best `metric`."""

    metric: str
    mode: Literal["min", "max"]
    patience: PositiveInt | None = None
    """Training ends early after this many validations without improvement; default: never."""

    @property
    def names(self) -> tuple[str, str]:
        """The names that `metric` may mean: `loss` may be written as in `history.csv`, `val_loss`."""
        return self.metric, self.metric.removeprefix("val_")

    def among(self, names: Collection[str]) -> str:
        """Return the validation metric that `metric` refers to. Raises `InputError` if it is none of them."""
        found = next((name for name in self.names if name in names), None)
        if found is None:
            known = ", ".join(sorted(names)) or "none"
            raise InputError(f"train.best.metric is {self.metric!r}: the metrics of a validation are {known}")
        return found


class CheckpointPolicy(Section):
    """When to write a checkpoint and how many to keep. The result is the same to the bit."""

    every_steps: PositiveInt | None = None
    every_seconds: PositiveFloat = 30.0
    keep: PositiveInt = 2


class TrainSettings(Section):
    """One training run. `params.yaml` may omit every setting that has a default."""

    seed: NonNegativeInt = Field(default=0, lt=2**31)
    epochs: PositiveInt = Field(lt=2**31)
    batch_size: PositiveInt
    steps_per_epoch: PositiveInt | None = Field(default=None, lt=2**31)
    """Only for recipes that generate their training data; for all others it follows from the data."""
    shuffle: bool = True
    """Whether each epoch draws a new permutation of all examples; `false` keeps the order on disk."""
    compile: Compile = "graph"
    precision: Precision = "float32"
    bits: Bits = "portable"
    """`portable`: the same result on every x86-64 CPU with AVX2, with any number of cores, in graph mode and under XLA.
    `native`: everything that this CPU offers, but only CPUs of its type repeat the result."""
    threads: PositiveInt = Field(default=arithmetic.THREADS, le=MOST_THREADS)
    """Number of threads that an operation is cut for with portable bits; as many run as there are cores. Another number
    changes the last bits; two is faster on two cores, more than four can be faster on more. See `tapeline tune`."""
    data: Literal["auto", "ram", "stream"] = "auto"
    """Whether columns are held in memory or streamed from disk; the result is the same to the bit."""
    validate_every: PositiveInt = 1
    """Epochs between validations; the last epoch is always validated if there is a `val` split."""
    in_graph_epochs: PositiveInt = 1
    """Maximum epochs of training and validation in one call of the compiled loop; the result is the same to the bit."""
    best: Best | None = None
    """Which weights to keep; default: those of the last step."""
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    gradients: dict[str, Transforms] = {}
    """The recipe's attribute that holds an optimizer → transforms of its gradients."""
    shards: PositiveInt = 1
    """Number of equal parts that a batch is cut into; each runs the step on one core, and they meet at each update. The
    update is that of the whole batch if the loss is a mean over examples; batch normalization uses the moments of
    the whole batch."""
    at_once: PositiveInt | None = None
    """How many shards run at once in graph mode; default: as many as this process has cores. With 1, a step needs
    the memory of one shard. The result is the same to the bit."""
    fused: bool = False
    """Use TensorFlow's fused kernels for optimizer updates and batch normalization. Results differ in the last bits;
    `tapeline tune` measures the gain."""
    ema: float | None = Field(default=None, gt=0.0, lt=1.0)
    """Decay of an exponential moving average of the weights; if set, the average is validated and kept instead."""
    max_skipped: NonNegativeInt = 0
    """How many non-finite steps to skip before training stops."""
    skip: tuple[NonNegativeInt, ...] = ()
    """Steps to skip unconditionally, such as those of a known bad batch."""
    max_time: PositiveFloat | None = None
    """Wall-clock limit in seconds, after which the run ends with a checkpoint and a non-zero status."""
    log_every: PositiveInt | None = None
    """Number of steps between log lines."""
    tensorboard: bool = False
    """Write scalars and pictures to `.tapeline/train/<pipeline>/tensorboard/`."""
    init_from: str | None = None
    """Weights to start from: a folder such as `runs/digits/train/weights`, or a registered `digits@v1.0.0`."""

    # Not in a validator "before": behind one, a strict model takes no list of JSON as a tuple.
    accumulate: SkipJsonSchema[Any] = Field(None, exclude=True)
    replicas: SkipJsonSchema[Any] = Field(None, exclude=True)

    @model_validator(mode="after")
    def _of_today(self) -> "TrainSettings":
        """Raise `ValueError` that says today's text for the settings of older versions."""
        old = {name: getattr(self, name) for name in OLD_PARTS if name in self.model_fields_set}
        if old:
            known = all(isinstance(number, int) for number in old.values())
            today = " and ".join(f"{name}: {number}" for name, number in (as_shards(**old) if known else {}).items())
            said = " and ".join(f"{name}: {number}" for name, number in old.items())
            raise ValueError(f"{said} is from an older Tapeline: write {today or 'shards'}, as `tapeline upgrade` does")
        return self

    @model_validator(mode="after")
    def _shards_are_equal(self) -> "TrainSettings":
        if self.batch_size % self.shards:
            raise ValueError(f"shards is {self.shards}, which does not divide batch_size {self.batch_size}")
        return self

    @model_validator(mode="after")
    def _threads_are_used(self) -> "TrainSettings":
        if self.threads != arithmetic.THREADS and self.bits == "native":
            raise ValueError(
                "threads requires `bits: portable`: with native bits an operation is cut for this machine's cores"
            )
        if self.threads != arithmetic.THREADS and self.one_thread:
            raise ValueError(
                "threads is for whole batches: in graph mode a shard has one thread, so remove threads or shards"
            )
        return self

    @model_validator(mode="after")
    def _several_epochs_inside(self) -> "TrainSettings":
        if self.in_graph_epochs > 1 and self.compile == "xla":
            raise ValueError("in_graph_epochs requires `compile: graph`: XLA would round the validation differently")
        if self.in_graph_epochs > 1 and self.best:
            raise ValueError(
                "in_graph_epochs keeps the last weights, but `best` compares them between epochs: remove one of the two"
            )
        return self

    @model_validator(mode="after")
    def _patience_needs_validations(self) -> "TrainSettings":
        if self.best and self.best.patience and self.validate_every > self.epochs:
            raise ValueError("best.patience counts validations, but validate_every is longer than the run: lower it")
        return self

    @property
    def one_thread(self) -> bool:
        """Whether an operation has one thread, so that shards can run side by side."""
        return self.shards > 1 and self.compile == "graph"

    @property
    def operation_threads(self) -> int:
        """Threads that an operation is cut for with portable bits."""
        return 1 if self.one_thread else self.threads

    @property
    def promised_bits(self) -> Promise:
        """`portable` but for eager steps, which were not compared between CPUs."""
        return "capped" if self.compile == "eager" and self.bits == "portable" else self.bits

    def deciding(self) -> dict[str, object]:
        """Return what determines the result bit for bit: everything but when and where to compute, save, or stop.

        `threads` is among it where it is not the default, which results of older versions have, too.
        """
        usual = {"threads"} if self.threads == arithmetic.THREADS else set()
        return self.model_dump(mode="json", exclude=_UNDECIDING | usual)

    def recorded(self) -> dict[str, object]:
        """Return what `run.json` says: `deciding`, and `max_skipped`, which decides only whether a run finishes."""
        return {**self.deciding(), "max_skipped": self.max_skipped}


_UNDECIDING = {
    "checkpoint",
    "max_time",
    "max_skipped",
    "log_every",
    "data",
    "in_graph_epochs",
    "tensorboard",
    "init_from",
    "at_once",
}


OLD_PARTS = ("accumulate", "replicas")
"""What older versions cut a batch into: parts that were computed one after the other, and parts side by side."""


def as_shards(accumulate: int = 1, replicas: int = 1) -> dict[str, int]:
    """Return today's settings for `OLD_PARTS`: all are shards, of which as many are computed at once as were."""
    return {"shards": accumulate * replicas, **({"at_once": replicas} if accumulate > 1 else {})}
