"""`make audit` says "no known advisory" of what was asked for, and of nothing else."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from release import audit, locked

ENTRIES = [
    locked.Locked(name, "1.0", "", ("0" * 64,), (locked.OWN,)) for name in ("one", "other", "third", "fourth", "fifth")
]
ADVISORY = {"id": "PYSEC-2026-1", "fix_versions": ["1.1", "2.0"]}


def report(names, **vulns):
    return {"dependencies": [{"name": name, "version": "1.0", "vulns": vulns.get(name, [])} for name in names]}


ALL = [one.name for one in ENTRIES]


@pytest.mark.parametrize(
    ("found", "lines", "status"),
    [
        (report(ALL), ["audit: no known advisory for any of 5 distributions"], audit.NONE),
        (report(ALL, one=[ADVISORY]), ["one 1.0: PYSEC-2026-1, mended in 1.1, 2.0"], audit.SOME),
        (
            report(["one"], one=[{**ADVISORY, "fix_versions": []}]),
            [
                "one 1.0: PYSEC-2026-1, mended in no version",
                "audit: not asked for 4 of 5 distributions (other 1.0, third 1.0, fourth 1.0, ...): not reported",
            ],
            audit.SOME,
        ),
        (
            {"dependencies": [{"name": name, "skip_reason": "not found"} for name in ALL]},
            ["audit: not asked for 5 of 5 distributions (one 1.0, other 1.0, third 1.0, ...): not found"],
            audit.NOT_ASKED,
        ),
        (report(ALL[:4]), ["audit: not asked for 1 of 5 distributions (fifth 1.0): not reported"], audit.NOT_ASKED),
    ],
)
def test_what_a_report_comes_to(found, lines, status):
    assert audit.judged(found, ENTRIES) == (lines, status)


def call(root, *options, **environment):
    return subprocess.run(
        [sys.executable, "-m", "release.audit", *options],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_network_it_says_so_in_one_line(root, tmp_path):
    answer = call(root, UV_OFFLINE="1", UV_CACHE_DIR=str(tmp_path))
    assert answer.returncode == audit.NOT_ASKED and not answer.stdout
    assert answer.stderr.startswith("audit: not asked for any of ") and answer.stderr.count("\n") == 1


class Advisories(BaseHTTPRequestHandler):
    """Answers as OSV does: one distribution has an advisory."""

    asked: list[str] = []

    def do_POST(self):
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(query["package"]["name"])
        vulns = {"vulns": [{"id": "PYSEC-2026-1", "affected": []}]} if query["package"]["name"] == "keras" else {}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(vulns).encode())

    def log_message(self, *arguments):
        pass


@pytest.mark.slow
def test_pip_audit_asks_for_each(root):
    """The real one, with a server of our own for the advisories."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        answer = call(root, "--vulnerability-service", "osv", "--osv-url", url)
        server.shutdown()
    if "pip-audit could not be installed" in answer.stderr:
        pytest.skip("no index to install pip-audit from")
    [keras] = [one for one in locked.read() if one.name == "keras"]
    assert answer.returncode == audit.SOME, answer.stderr
    assert answer.stderr == f"keras {keras.version}: PYSEC-2026-1, mended in no version\n"
    assert sorted(Advisories.asked) == sorted(one.name for one in locked.read())
