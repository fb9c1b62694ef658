"""What the flow's command line answers before Prefect is imported; how commands end that talk to a server."""

import os
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
import serving

from tapeline.orchestration.connection.failures import fault

MODULES = {"deploy": "flows.deploy", "data_changes": "tapeline.orchestration.data_changes"}

# Runs the module as `python -m` does, and tells at the end what was imported.
CALL = """
import runpy, sys
sys.argv = ["flows.training", *sys.argv[1:]]
try:
    runpy.run_module("flows.training", run_name="__main__", alter_sys=True)
finally:
    print("heavy:", sorted({"prefect", "dvc", "tensorflow"} & set(sys.modules)))
"""


@pytest.fixture
def call(committed, root):
    def run(*arguments, folder=committed):
        command = [sys.executable, "-c", CALL, *arguments]
        environment = {"PYTHONPATH": f"{root}:{root / 'src'}", "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
        )

    return run


def test_help_imports_nothing_heavy(call):
    done = call("--help")
    assert done.returncode == 0
    assert "--pipeline NAME" in done.stdout
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pipeline", "tinny"), "no pipeline 'tinny' in params.yaml; did you mean 'tiny'?"),
        (("--pipeline", "other"), "no pipeline 'other' in params.yaml; choose from tiny"),
        ((), "--pipeline is missing: params.yaml has tiny"),
    ],
)
def test_an_unknown_pipeline_is_one_line(call, arguments, message):
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"training: {message}"]
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize("option", ["--timeout", "--set"])
def test_a_key_that_is_given_twice_is_refused(call, option):
    """The last value counted."""
    done = call("--pipeline", "tiny", "--isolated", option, "train=1", option, "train=2")
    assert done.returncode == 2
    assert done.stderr == "training: 'train=2' is a second value of train: give each key once\n"


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("fifo", ", which is not a file: give the name of a file"),
        ("link", ", which is not a file: give the name of a file"),
        (".", ", which is not a file: give the name of a file"),
        ("/proc/x/y", ": cannot write a file there: No such file or directory"),
        ("params.yaml/y", ": cannot write a file there: Not a directory"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(call, project, report, message):
    """It was tried after the training, and as root a device was replaced."""
    folder = project()
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("/dev/null")  # as /dev/stdout is
    before = sorted(folder.rglob("*"))
    done = call("--pipeline", "tiny", "--report", report, folder=folder)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"training: --report is {report!r}{message}"]
    assert "heavy: []" in done.stdout and sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("epochs: 1", "epochs: 0", "train.epochs is 0: must be greater than 0"),
        ("recipe.py", "missing.py", "missing.py does not exist"),
        ("params: {}", "params: {speed: 1}", "speed: no such setting"),
        ("datasets:", "environment: {keras: 1}\ndatasets:", "environment is from an older Tapeline"),
        ("pipelines:", "pipelines", "not YAML"),
    ],
)
def test_a_mistake_in_params_is_one_line(call, project, was, becomes, message):
    folder = project()
    params = (folder / "params.yaml").read_text()
    assert was in params
    (folder / "params.yaml").write_text(params.replace(was, becomes, 1))
    done = call("--pipeline", "tiny", folder=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize("number", [0, 2**64])
def test_a_batch_size_that_is_none_is_refused_before_a_server_has_it(root, tmp_path, number):
    """A server that has been given an integer of more than 64 bits lists no runs any more."""
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "tapeline",
            "infer",
            "--model=a",
            "--out=b.csv",
            f"--batch-size={number}",
            "c.npy",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (2, f"inference: --batch-size is {number}: must be from 1 to 2147483647\n")


def test_a_server_that_answers_with_an_error_is_not_called_away():
    """Its disk may be full."""
    response = httpx.Response(500, request=httpx.Request("POST", "http://127.0.0.1:9/api"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert fault(caught.value) == "answers with an error, 500 Internal Server Error: look at its disk and database"


class Page(BaseHTTPRequestHandler):
    """Answers whatever it is asked with a web page, as a proxy that wants a login does."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    do_POST = do_GET

    def log_message(self, *_):
        """Keep the test's output."""


@pytest.mark.parametrize("command", ["deploy", "serve"])
def test_a_web_page_in_the_place_of_a_server_is_one_line(project, root, command):
    """It was a traceback of the JSON that it is not."""
    folder = project()
    serving.write(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        address = f"http://127.0.0.1:{page.server_port}"
        Thread(target=page.serve_forever, daemon=True).start()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tapeline", command],
            cwd=folder,
            env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "PREFECT_API_URL": address},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        page.shutdown()
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"{command}: the Prefect server answers with a web page: set PREFECT_API_URL to" in done.stderr


def test_an_address_without_the_api_is_no_full_disk():
    response = httpx.Response(404, request=httpx.Request("GET", "http://127.0.0.1:9/health"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert fault(caught.value).startswith("answers with 404 Not Found: set PREFECT_API_URL to the address of its API")


def test_outside_a_project_it_says_so(call, tmp_path):
    done = call("--pipeline", "tiny", folder=tmp_path)
    assert done.returncode == 2
    assert "no params.yaml in" in done.stderr


@pytest.mark.parametrize(
    ("profile", "variables", "said"),
    [
        ("", {"PREFECT_LOGGING_LEVEL": "loud"}, "Prefect's LoggingSettings: level is 'LOUD': Input should be 'DEBUG'"),
        (
            'PREFECT_API_URL = "http://127.0.0.1:9/api"\nPREFECT_API_REQUEST_TIMEOUT = "soon"',
            {},
            "is 'soon': Input should",
        ),
        ('PREFECT_API_URL = "http://127.0.0.1:9/api', {}, "profiles.toml, prefect.toml or pyproject.toml is not TOML"),
    ],
)
@pytest.mark.parametrize("command", [["run", "--pipeline", "tiny"], ["serve"]])
def test_a_mistake_in_prefect_s_settings_is_one_line(project, tmp_path, root, profile, variables, said, command):
    """They were tracebacks: Prefect raises what is wrong with its settings where it is imported."""
    folder = project()
    serving.write(folder)
    (tmp_path / "profiles.toml").write_text(f'active = "mine"\n[profiles.mine]\n{profile}\n')
    environment = {"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "PREFECT_HOME": str(tmp_path), **variables}
    if not profile:
        environment["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tapeline", *command],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.first(4)
@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:42oo/api", "127.0.0.1:4200/api", "localhost:4200", "http:///api"]
)
@pytest.mark.parametrize("command", [["run", "--pipeline", "tiny"], ["deploy"], ["serve"]])
def test_what_is_no_address_of_a_server_is_one_line(project, root, address, command):
    """It was a traceback, or a server that does not answer."""
    folder = project()
    serving.write(folder)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tapeline", *command],
        cwd=folder,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "PREFECT_API_URL": address},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    program = {"run": "training"}.get(command[0], command[0])
    said = f"{program}: PREFECT_API_URL is '{address}': write http://HOST:PORT/api\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.slow
def test_prefect_s_server_can_be_imported():
    """A FastAPI that refuses Prefect's endpoints ends every flow at this import."""
    subprocess.run([sys.executable, "-c", "import prefect.server.api.server"], check=True, timeout=60)


@pytest.mark.parametrize("program", ["tapeline run", "flows.training"])
def test_git_s_answers_count_where_whoever_started_it_ignores_the_end_of_children(committed, root, program):
    """The kernel would keep no exit status."""
    module, *command = program.split()
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, '-P', '-m', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", ignoring, module, *command, "--pipeline", "tiny", "--isolated", "--ref", "nothing"],
        cwd=committed,
        env={"PYTHONPATH": f"{root}:{root / 'src'}", "PATH": "/usr/bin:/bin"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("training: ref is 'nothing': no such branch")


@pytest.fixture
def changed(project):
    """A project with nothing to deploy, whose data have changed since the last look."""
    folder = project()
    serving.prepare(folder)
    serving.write(folder)
    assert told("data_changes", folder, "http://127.0.0.1:9/api").communicate(timeout=60) == (
        "no data has changed\n",
        "",
    )
    params = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(params.replace("needs: points.csv", "needs: other.csv"))
    serving.commit(folder, "other data")
    return folder


def told(name, folder, url, out=subprocess.PIPE):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULES[name]],
        cwd=folder,
        env={**serving.environment(url), "PYTHONPATH": f"{serving.ROOT}:{serving.ROOT / 'src'}"},
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.first(1)
@pytest.mark.parametrize("name", MODULES)
def test_ctrl_c_while_a_server_does_not_answer_is_one_line(changed, name):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        with told(name, changed, f"http://127.0.0.1:{silent.getsockname()[1]}/api") as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(4) == b"GET "
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + signal.SIGINT, f"{name}: stopped by SIGINT\n")


def test_a_result_that_finds_no_room_is_one_line(project):
    folder = project()
    with Path("/dev/full").open("w") as full, told("data_changes", folder, "http://127.0.0.1:9/api", full) as process:
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, "data_changes: no space left on the disk: free some and run again\n")
