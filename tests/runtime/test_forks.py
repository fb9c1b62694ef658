"""A process that leaves its memory to the kernel ends as Python ends one."""

import os
import subprocess
import sys

import pytest

ENDS = {
    "well": "print('done')",
    "status": "print('x', end=''); import sys; sys.exit(3)",
    "large status": "import sys; sys.exit(259)",
    "none": "import sys; sys.exit(None)",
    "words": "import sys; sys.exit('two words')",
    "error": "raise ValueError('why')",
    "interrupt": "raise KeyboardInterrupt",
    "atexit": "import atexit; atexit.register(print, 'second'); atexit.register(print, 'first')",
    "error in atexit": "import atexit; atexit.register(print, 'after'); atexit.register(lambda: 1 / 0)",
    "a thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()",
    "a daemon": "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "a pool": "from concurrent.futures import ThreadPoolExecutor; import time; ThreadPoolExecutor().submit(lambda: (time.sleep(0.3), print('late')))",
    "a folder": "import tempfile; held = tempfile.TemporaryDirectory(); print(len(held.name) > 3)",
}  # fmt: skip


@pytest.mark.parametrize("code", ENDS.values(), ids=list(ENDS))
def test_it_ends_as_python_does(code):
    finishing = f"from tapeline.runtime import forks; forks.finish(lambda: exec({code!r}, {{}}))"
    plain, ours = (
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
        for text in (code, finishing)
    )
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]
    assert ours.stderr.count("Traceback") == plain.stderr.count("Traceback")


def test_output_that_is_lost_is_an_error():
    code = "import sys; sys.stdout = open('/dev/full', 'w'); print('x')"
    finishing = f"from tapeline.runtime import forks; forks.finish(lambda: exec({code!r}, {{}}))"
    plain, ours = (
        subprocess.run([sys.executable, "-c", text], capture_output=True, check=False).returncode
        for text in (code, finishing)
    )
    assert ours == plain == 120


def test_no_destructor_runs():
    code = "class A:\n  def __del__(self): print('freed')\na = A()\n"
    finishing = f"from tapeline.runtime import forks; forks.finish(lambda: exec({code!r}, globals()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "freed\n"
    assert subprocess.check_output([sys.executable, "-c", finishing], text=True) == ""


def test_what_imports_have_set_is_set_back_and_known():
    code = (
        "import os\nfrom tapeline.runtime import forks\n"
        "os.environ.update(GIVEN='changed', ADDED='a', KEPT='k')\n"
        "forks.restore_environment(kept={'KEPT'})\n"
        "print(*(os.environ.get(name) for name in ('GIVEN', 'ADDED', 'KEPT')), forks.set_by_imports())\n"
    )
    environment = {**os.environ, "GIVEN": "first"}
    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert said == "first None k {'GIVEN': 'changed', 'ADDED': 'a'}\n"
