"""The process that is forked serves requests, whatever its caller has open."""

import subprocess
import sys

SERVED = """
import fcntl, json, os, resource, socket
from tapeline.runtime import nursery

resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if os.fork() == 0:
    high = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD, 1500)
    ours.close()
    theirs.close()
    nursery.serve(socket.socket(fileno=high), ["colorsys"])
    os._exit(0)
theirs.close()
asked = dict(module="none", arguments=[], folder="/", parent=os.getpid(), code="", nursery=False)
for _ in range(2):
    with open(os.devnull) as nothing:
        socket.send_fds(ours, [json.dumps(asked).encode()], [nothing.fileno(), nothing.fileno()])
    print(ours.recv(64).decode().isdecimal())
"""


def test_a_caller_with_many_open_files_is_served_twice(root):
    answer = subprocess.run(
        [sys.executable, "-c", SERVED], cwd=root / "src", capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "True\nTrue\n", "")
