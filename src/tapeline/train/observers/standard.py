"""The observers of the command line: console, pictures, TensorBoard, profile, progress file.

train(Job(..., observers=standard(report)))
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tapeline.runtime.progress import Report, silent
from tapeline.runtime.records import Hook, Note, Tell
from tapeline.train.job import Job, Observers
from tapeline.train.observers.console import Console
from tapeline.train.observers.observing import Observer
from tapeline.train.observers.progress import reporting


def standard(report: Report = silent) -> Observers:
    """Return what `Job.observers` takes. report: takes the progress of the run."""

    @contextmanager
    def watching(job: Job, tell: Tell) -> Iterator[list[Hook]]:
        # TensorFlow has been set up when a run begins, and must not be imported before.
        from tapeline.train.observers.pictures import Pictures
        from tapeline.train.observers.profiling import Profile
        from tapeline.train.observers.tensorboard import TensorBoard

        with ExitStack() as stack:

            def observe(name: str, begin: Callable[[Path], Any], folder: str) -> Observer:
                made = partial(begin, job.traces / folder)
                observer = Observer(made, job.traces / folder, name=name, say=lambda text: tell(Note(text=text)))
                return stack.enter_context(closing(observer))

            settings = job.settings
            console = Console(log_every=settings.log_every, batch_size=settings.batch_size)
            hooks: list[Hook] = [stack.enter_context(closing(console)), observe("pictures", Pictures, "pictures")]
            if settings.tensorboard:
                hooks.append(observe("scalars for TensorBoard", TensorBoard, "tensorboard"))
            if job.options.profile:
                hooks.append(observe("profiles", partial(Profile, *job.options.profile, tell=tell), "profile"))
            yield [*hooks, reporting(report)]

    return watching
