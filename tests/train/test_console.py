"""What is printed, line by line, with a clock that the test holds."""

import io
import os

from tapeline.runtime.records import LoopEnded, Note, Saved, Skipped, Validated
from tapeline.train.observers.console import Console, figures


def loop(start, step, seconds=1.0, **metrics):
    return LoopEnded(
        start=start,
        step=step,
        total=100,
        epoch=step // 10,
        metrics=metrics,
        seconds=seconds,
        examples=(step - start) * 8,
    )


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_where_there_is_no_terminal(tmp_path):
    out, now = io.StringIO(), [0.0]
    console = Console(stream=out, clock=lambda: now[0])
    console(Note(text="resuming from step 5"))
    console(loop(5, 10, 7.0, loss=2.0))
    now[0] = 11.0
    console(loop(10, 50, 2.0, loss=1.0))
    now[0] = 12.0
    console(loop(50, 60, loss=0.5))
    console(Skipped(start=60, step=61, epoch=6, reason="loss is nan"))
    console(Validated(step=70, epoch=7, metrics={"loss": 0.25, "accuracy": 0.5}, improved=True))
    console(Saved(step=70, path=tmp_path, seconds=0.1))
    assert out.getvalue().splitlines() == [
        "resuming from step 5",
        "epoch 5  step 50/100  loss 1.0000  160 examples/s  2 s left",
        "step 60 skipped: loss is nan",
        "epoch 7  step 70  validation: loss 0.2500  accuracy 0.5000 (best)",
        "checkpoint at step 70",
    ]


def test_a_reader_that_is_gone_ends_no_training():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        console = Console(stream=out)
        for _ in range(3):
            console(Note(text="resuming from step 5"))


def test_the_first_loop_which_compiles_does_not_count():
    out = io.StringIO()
    console = Console(stream=out, clock=lambda: 0.0)
    console(loop(0, 10, 60.0, loss=1.0))
    console(loop(10, 100, 9.0, loss=1.0))
    assert "80 examples/s" in out.getvalue()


def test_a_line_every_n_steps_as_articles_print():
    out = io.StringIO()
    console = Console(log_every=20, batch_size=64, stream=out, clock=lambda: 0.0)
    for start in range(0, 50, 10):
        console(loop(start, start + 10, loss=start / 10))
    assert [line for line in out.getvalue().splitlines() if line.startswith("step")] == [
        "step 20  loss 1.0000  seen so far: 1,280 examples",
        "step 40  loss 3.0000  seen so far: 2,560 examples",
    ]
    assert [console.next_stop(step) for step in (0, 19, 20)] == [20, 20, 40]


def test_a_bar_in_a_terminal():
    out = Terminal()
    console = Console(stream=out, clock=lambda: 0.0)
    console(loop(0, 10, loss=1.0))
    console(loop(10, 50, 2.0, loss=0.125))
    console.close()
    assert "epoch 5" in out.getvalue()
    assert "loss 0.1250" in out.getvalue()
    assert "160 examples/s" in out.getvalue()


def test_figures():
    assert figures({"loss": 1.23456, "accuracy": 1.0}) == "loss 1.2346  accuracy 1.0000"
