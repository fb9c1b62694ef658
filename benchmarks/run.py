"""Measure workloads, print a table for each, write `benchmarks/results/<workload>.json` and the chart.

python -m benchmarks.run [WORKLOAD ...] [--repeats 7] [--seconds 4]
"""

import sys

from benchmarks import chart, machine, program, result_files, table
from benchmarks.catalogue import NAMES, workload
from benchmarks.measure import measure
from benchmarks.peers.engine import FAMILY, with_native
from benchmarks.process import Failed


def main() -> int:
    """Return the exit status: 1 if a contender did not learn the same as Tapeline, or a workload failed."""
    parser = program.parser(__doc__, repeats=7, caps=True, out=result_files.FOLDER)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a turn, at least")
    parser.add_argument("--warm-up", type=float, help="seconds of the turn that does not count; as long as the others")
    parser.add_argument("--only", default="", help="tapeline and contenders with this in their name; writes nothing")
    parser.add_argument(
        "--native", action="store_true", help="tapeline alone, in each mode with portable and with native bits"
    )
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(NAMES):
        parser.error(f"unknown workload {', '.join(sorted(unknown))}: there are {', '.join(NAMES)}")
    machine.cap(options.caps)
    here, failed = {**machine.describe(), "caps": options.caps}, False
    for name in options.workloads or NAMES:
        chosen = with_native(workload(name)) if options.native else workload(name)
        print(f"{name}: {chosen.title}", flush=True)
        try:
            record = measure(
                chosen,
                repeats=options.repeats,
                seconds=options.seconds,
                warm_up=options.warm_up or options.seconds,
                wanted=lambda one: one.family == FAMILY or (not options.native and options.only in one.name),
                say=lambda line: print(line, file=sys.stderr, flush=True),
            )
        except Failed as error:
            print(f"  {error}", flush=True)
            failed = True
            continue
        failed |= bool(record["disagree"])
        print(table.lines(record), flush=True)
        if not (options.only or options.native):  # a partial record would replace the complete one
            result_files.write(options.out, record, here)
    chart.draw(result_files.read_all(options.out), options.out / "ratios.png")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
