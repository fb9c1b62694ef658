"""Shards: the equal parts of a step's batch. Each takes the recipe's step as if it were alone, and they meet.

Each shard runs in a Python thread of its own, one at a time, in the order of their numbers: what they do is the same
each time. At a meeting a shard waits until all have come to it; what is to be done for the batch as a whole (an
update, the moments of a normalization, a write) is done once, and each goes on with the result. So a step that is
written for one batch is traced once for each shard, and needs to know nothing of the others.

results = Shards([lambda: step(first), lambda: step(second)], keep=lambda: lambda: None)()
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tapeline.recipe.autograph import as_written
from tapeline.recipe.sharding.crossing import Owners
from tapeline.runtime import keras_private, tensorflow_private
from tapeline.runtime.errors import InputError

Action = Callable[[list[Any]], Any]
"""Takes what each shard brought to a meeting, in their order, and returns what all of them get."""
Keep = Callable[[], Callable[[], None]]
"""Returns a function that sets Python state to what it is now: while others run, a shard keeps its own."""

_RUNNING: ContextVar["Shard | None"] = ContextVar("shard", default=None)
_MEETING = "meeting"
"""The name scope of what is done in meetings."""
BRANCH = "branch"
"""The name scope, in a meeting's, of a condition in whose branches the shards go on."""


LOOP = (
    "a loop, a tf.switch_case or a tf.function inside the step, where shards cannot meet: move it out (a Python loop "
    "over a range is fine, since it is unrolled)"
)
VECTORIZED = "a tf.vectorized_map or a tape's jacobian, where shards cannot meet: move it out"
_SCOPE = rf"{_MEETING}(_\d+)?"
_TAKEN = rf"{_SCOPE}/{BRANCH}(_\d+)?/[^/]+"


class _Stopped(BaseException):
    """Ends the thread of a shard whose step is given up."""


@dataclass(frozen=True)
class Surroundings:
    """What a call depends on besides its arguments, where another thread goes on: context variables, Keras'."""

    context: Context
    keras: keras_private.Shared

    @classmethod
    def here(cls) -> "Surroundings":
        """Return this thread's."""
        return cls(copy_context(), keras_private.Shared())


class Shard(threading.Thread):
    """One shard's call, in a thread that runs only while the one that advances it waits."""

    def __init__(self, number: int, call: Callable[[], Any], step: "Shards", surroundings: Surroundings) -> None:
        super().__init__(name=f"shard {number}", daemon=True)
        self.number, self.step = number, step
        self.drawing = False
        """Whether a seed generator draws: its state is this shard's own."""
        self.at: tuple[str, Any] | None = None
        """The meeting that the shard waits at, and what it brought; None before the first and after the end."""
        self.done, self.result = False, None
        self.error: BaseException | None = None
        self._alone: list[str] = []
        self.finished: list[Sequence[Any]] = []
        """For each part of the step between two meetings, what waits for its end in the graph: an operation or none."""
        self._call, self._surroundings = call, surroundings
        self._answer: Any = None
        self._throw: BaseException | None = None
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._wait_for: Callable[[Sequence[Any]], None] = lambda operations: None

    def advance(self, answer: Any = None, *, throw: BaseException | None = None) -> None:
        """Let the shard go on from its meeting until the next, or until it ends. Called in another thread."""
        self._answer, self._throw = answer, throw
        if not self.is_alive() and not self.done:
            self.start()
        self._go.release()
        self._paused.acquire()

    def meet(self, what: str, brought: Any) -> Any:
        """Wait until all shards are here, and return the result. Called in the shard's own thread."""
        self.at = (what, brought)
        self._end_part(brought)
        self.step.keras.hand_over()
        self._paused.release()
        self._go.acquire()
        self.step.keras.take_over()
        self.at = None
        if self._throw is not None:
            raise self._throw
        self._begin_part()
        return self._answer

    @contextmanager
    def alone_in(self, place: str) -> Iterator[None]:
        """Refuse meetings in the block. place: where it is, why shards cannot meet there, and what to do."""
        self._alone.append(place)
        try:
            yield
        finally:
            self._alone.pop()

    @property
    def is_alone(self) -> bool:
        """Whether meetings are refused now."""
        return bool(self._alone)

    def refusal(self, what: str) -> InputError:
        """Return the error for a meeting where this shard is alone."""
        place = self._alone[-1] if self._alone else LOOP
        return InputError(f"train.shards: {what} is inside {place}, or set train.shards to 1")

    def run(self) -> None:
        """Run the call; the exception that ends it is kept."""
        self._go.acquire()
        try:
            if self._throw is None:
                self.result = self._surroundings.context.copy().run(self._inside)
        except _Stopped:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.done, self.at = True, None
            self.step.keras.hand_over()
            self._paused.release()

    def _inside(self) -> Any:
        _RUNNING.set(self)
        self._surroundings.keras.adopt()
        self.step.keras.take_over()
        with tensorflow_private.inside(self.step.graph, f"shard_{self.number}") as self._wait_for:
            self._begin_part()
            result = self._call()
            self._end_part(result)
        return result

    def _begin_part(self) -> None:
        ahead = self.number - self.step.at_once
        if ahead >= 0:
            self._wait_for(self.step.shards[ahead].finished[len(self.finished)])

    def _end_part(self, brought: Any) -> None:
        graph, ends = self.step.graph, []
        if graph is not None and self.number + self.step.at_once < len(self.step.shards):
            values = tf.nest.flatten(brought, expand_composites=True)
            with graph.control_dependencies([value for value in values if getattr(value, "graph", None) is graph]):
                ends = [tf.no_op("done")]
        self.finished.append(ends)


class Shards:
    """One step of all shards.

    calls: one for each shard. keep: see `Keep`. at_once: how many may run at the same time where the step is a graph;
    the others wait for their turn, which changes no result. surroundings: one for each; this thread's if None. outer:
    the step that these go on with in a branch, which is taken by a condition.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], Any]],
        *,
        keep: Keep,
        at_once: int | None = None,
        surroundings: Sequence[Surroundings] | None = None,
        outer: "Shards | None" = None,
        condition: Any = None,
    ) -> None:
        self.graph = default_graph()
        self.outer, self.condition = outer, condition
        self.at_once = at_once or len(calls)
        self.keras = keras_private.Shared()
        around = surroundings or [Surroundings.here()] * len(calls)
        self.shards = [Shard(number, call, self, around[number]) for number, call in enumerate(calls)]
        self._owners: Owners = Owners(self.graph, outer._owners if outer else None)
        self._met: dict[int, tuple[Any, Any]] = {}
        self._in: dict[int, Shards] = outer._in if outer else {}
        self._in[id(self.graph)] = self
        self._keep = keep
        self._keeping: list[Callable[[], None]] = outer._keeping if outer else [keep() for _ in calls]

    def __call__(self) -> list[Any]:
        """Return the results in the order of the calls.

        Raises what a call or a meeting raises, and `InputError` for shards that do not come to the same meetings.
        """
        answer: Any = None
        with ExitStack() as stack:
            for shard in self.shards:
                stack.callback(self._stop, shard)
            while True:
                for number, shard in enumerate(self.shards):
                    self._keeping[number]()
                    self._advance(shard, answer)
                    self._keeping[number] = self._keep()
                if all(shard.done for shard in self.shards):
                    return [shard.result for shard in self.shards]
                self._check_together()
                answer = self._meeting()

    def inner(
        self, calls: Sequence[Callable[[], Any]], surroundings: Sequence[Surroundings], condition: tf.Tensor
    ) -> "Shards":
        """Return how the same shards go on in a branch of a condition, whose graph is the default one now."""
        return Shards(
            calls, keep=self._keep, at_once=self.at_once, surroundings=surroundings, outer=self, condition=condition
        )

    @property
    def conditions(self) -> list[Any]:
        """The conditions of the branches that the shards are in, the innermost first."""
        return [] if self.outer is None else [self.condition, *self.outer.conditions]

    def owner(self, tensor: Any) -> "Shards | None":
        """Return which step's graph a tensor is in: this one's, one around it or of a branch; None for another."""
        graph = getattr(tensor, "graph", None)
        return None if graph is None else self._in.get(id(graph))

    def met(self, value: Any) -> Any:
        """Return the meeting's result that a tensor is, which is the same for all shards; None for another tensor."""
        inside = self.owner(value)
        if inside is None:
            known = self._met.get(id(value))  # in eager execution
            return known and known[1]
        if known := inside._met.get(id(value)):
            return known[1]
        outside = inside.outside(value)
        return None if outside is None else inside.met(outside)

    def outside(self, tensor: Any) -> Any:
        """Return the tensor outside of this graph that one inside stands for; None for one that is computed inside."""
        if self.graph is None or tensor.op.type != "Placeholder":
            return None
        return next((outer for outer, inner in self.graph.captures if inner is tensor), None)

    def remember(self, value: Any, met: Any) -> None:
        """Note that a shard's tensor is the result of a meeting."""
        for part in (value, *tf.nest.flatten(value, expand_composites=True)):
            self._met[id(part)] = (part, met)

    def _advance(self, shard: Shard, answer: Any = None, *, throw: BaseException | None = None) -> None:
        self.keras.hand_over()
        self._owners.begin()
        shard.advance(answer, throw=throw)
        self.keras.take_over()
        if shard.error is not None:
            raise shard.error
        if throw is None and (crossed := self._owners.end(shard.number)):
            self._refuse_crossing(shard, *crossed)

    def _refuse_crossing(self, shard: Shard, name: str, owner: int) -> None:
        error = InputError(
            f"train.shards: shard {shard.number} uses {name}, which shard {owner} computed: train_step keeps it in "
            "Python, where it outlives the shard; compute it again in each call, or set train.shards to 1"
        )
        if shard.done:
            raise error
        self._blame(shard, error)

    def _check_together(self) -> None:
        """Raise `InputError`, in the thread of a shard that waits, unless all wait at the same meeting."""
        places = [shard.at[0] if shard.at else "its end" for shard in self.shards]
        odd = next((number for number, place in enumerate(places) if place != places[0]), None)
        if odd is not None:
            self._blame(
                self.shards[odd] if self.shards[odd].at else self.shards[0],
                InputError(
                    f"train.shards: the shards of a step take different paths: shard 0 comes to {places[0]}, shard "
                    f"{odd} to {places[odd]}; train_step must not depend on Python state that it changes"
                ),
            )

    def _meeting(self) -> Any:
        (_, (action, _)), *_ = waiting = [shard.at for shard in self.shards if shard.at]
        try:
            with tf.name_scope(_MEETING):
                return action([brought for _, (_, brought) in waiting])
        except Exception as error:
            self._blame(self.shards[0], error)

    def _blame(self, shard: Shard, error: BaseException) -> None:
        """Raise an error as if it came from what a shard waits for, so that the recipe's line is known."""
        self._advance(shard, throw=error)
        raise error

    def _stop(self, shard: Shard) -> None:
        while not shard.done:
            shard.advance(throw=_Stopped())
        if shard.ident is not None:
            shard.join()


def default_graph() -> Any:
    """Return the graph that is being traced; None in eager mode."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def in_meeting(name: str) -> bool:
    """Return whether an operation of a step's graph or branch was added by a meeting, by its name."""
    return re.match(rf"({_TAKEN}/)*{_SCOPE}/(?!{BRANCH}(_\d+)?/)", name) is not None


def is_branch(name: str) -> bool:
    """Return whether an operation is a condition in whose branches the shards go on, by its name."""
    return re.fullmatch(rf"({_TAKEN}/)*{_TAKEN}", name) is not None


@as_written
def running() -> Shard | None:
    """Return the shard in whose thread this is called, if any."""
    return _RUNNING.get()


@contextmanager
def vectorized() -> Iterator[None]:
    """Refuse meetings in the block, which is vectorized, if a shard runs it."""
    shard = running()
    with nullcontext() if shard is None else shard.alone_in(VECTORIZED):
        yield


@as_written
def meet(what: str, brought: Any, action: Action) -> Any:
    """Return the action's result, done once for all shards; each gets the same.

    what: names the place, such as "the update of self.optimizer". brought: what this shard adds, tensors in any nest.
    Raises `InputError` inside a loop, a `tf.function`, a vectorization or a branch of which each shard has its own.
    """
    shard = running()
    assert shard is not None, "only shards meet"
    if shard.is_alone or default_graph() is not shard.step.graph:
        raise shard.refusal(what)
    return shard.meet(what, (action, brought))
