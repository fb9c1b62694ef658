"""A hook that turns the engine's records into the progress file's JSON lines."""

from tapeline.parsing import json_text
from tapeline.runtime.progress import Report
from tapeline.runtime.records import Hook, LoopEnded, Note, Record, Saved, Skipped, Started, Validated


def reporting(report: Report) -> Hook:
    """Return a hook that reports every record as an event named after its kind; a metric without a number is null."""

    def tell(record: Record) -> None:
        match record:
            case Started():
                report({"event": "started", "done": record.step, "total": record.total, "unit": "steps"})
            case LoopEnded():
                report(
                    {
                        "event": "progress",
                        "done": record.step,
                        "total": record.total,
                        "unit": "steps",
                        "epoch": record.epoch,
                        "metrics": json_text.as_json(record.metrics),
                    }
                )
            case Validated():
                metrics = json_text.as_json(record.metrics)
                report({"event": "validated", "step": record.step, "epoch": record.epoch, "metrics": metrics})
            case Skipped():
                report({"event": "skipped", "step": record.start, "reason": record.reason})
            case Saved():
                report({"event": "saved", "step": record.step})
            case Note():
                report({"event": "note", "text": record.text})

    return tell
