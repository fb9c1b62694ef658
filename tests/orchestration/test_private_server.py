"""Who can use the servers that Tapeline starts: neither another local user nor a web page, on a real server."""

import os
import resource
import socket
import stat
import subprocess
import sys
import threading

import httpx
import psutil
import pytest
import serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tapeline.orchestration import serve
from tapeline.orchestration.connection import credentials
from tapeline.orchestration.connection.kept_server import KeptServer
from tapeline.orchestration.connection.server import LocalServer
from tapeline.runtime.errors import InputError, RunError

pytestmark = pytest.mark.slow  # a server starts

EVIL = "http://evil.example"


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The state folder, with a database as an older version left it."""
    return tmp_path_factory.mktemp("project") / ".tapeline"


@pytest.fixture(scope="module")
def own(state, database):
    """The server that `tapeline serve` starts; its port."""
    from importlib import metadata

    home = state / "prefect" / metadata.version("prefect")
    home.mkdir(parents=True)
    (home / "prefect.db").write_bytes(database.read_bytes())
    (home / "prefect.db").chmod(0o644)
    (home / "made").touch()
    with serve.listening(0) as listener, LocalServer(state, say=print, listener=listener) as server:
        server.ready()
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def auth(state, own):
    return tuple(credentials.auth(state).split(":"))


@pytest.fixture(scope="module")
def client(own):
    """A program without the password."""
    with httpx.Client(base_url=f"http://127.0.0.1:{own}", trust_env=False, timeout=60) as found:
        yield found


FLOW_RUN = {"name": "x", "flow_id": "00000000-0000-0000-0000-000000000000"}


@pytest.mark.in_ci()
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/flows/"),
        ("POST", "/api/deployments/"),
        ("POST", "/api/flow_runs/"),
        ("POST", "/api/flow_runs/filter"),
        ("POST", "/api/automations/"),
        ("POST", "/api/health"),
        ("GET", "/api/admin/settings"),
        ("GET", "/api/docs"),
        ("GET", "/api//health/"),
    ],
)
@pytest.mark.parametrize("given", [None, ("tapeline", "guess"), ("", "")])
def test_another_local_user_is_refused(client, method, path, given):
    answer = client.request(method, path, json=FLOW_RUN if method == "POST" else None, auth=given)
    assert answer.status_code == httpx.codes.UNAUTHORIZED


def test_who_has_the_password_is_served(client, auth):
    assert client.post("/api/flows/", json={"name": "mine"}, auth=auth).status_code == httpx.codes.CREATED
    assert client.post("/api/flows/filter", json={}, auth=auth).json()[0]["name"] == "mine"


def test_the_page_is_there_and_asks_for_the_password(client, own):
    page = client.get("/", headers={"Accept": "text/html"}, follow_redirects=True)
    assert page.status_code == httpx.codes.OK
    assert "<html" in page.text
    settings = [client.get(path) for path in ("/ui-settings", "/v1/ui-settings", "/v2/ui-settings")]
    [found, *_] = [answer.json() for answer in settings if "json" in answer.headers["content-type"]]
    assert found["auth"] == "BASIC"
    assert found["api_url"] == f"http://127.0.0.1:{own}/api"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_our_own_page_may_use_the_server(own, auth, host):
    origin = f"http://{host}:{own}"
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    url = f"http://127.0.0.1:{own}/api/flows/filter"
    asked = httpx.options(url, headers=headers, trust_env=False)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (httpx.codes.OK, origin)
    done = httpx.post(url, json={}, headers={"Origin": origin}, auth=auth, trust_env=False)
    assert done.status_code == httpx.codes.OK


@pytest.mark.in_ci()
@pytest.mark.parametrize("path", ["/api/flow_runs/", "/api/health", "/"])
@pytest.mark.parametrize("origin", [EVIL, "null", "", "http://127.0.0.1:1", "https://127.0.0.1"])
@pytest.mark.parametrize("method", ["OPTIONS", "POST", "GET"])
def test_a_page_of_another_site_is_refused_and_granted_nothing(client, auth, method, origin, path):
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", "Content-Type": "text/plain"}
    answer = client.request(method, path, headers=headers, content=b"{}" if method == "POST" else None, auth=auth)
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:{port}.evil.example"])
def test_a_name_that_is_bound_to_our_address_is_refused(client, own, auth, host):
    answer = client.get("/api/health", headers={"Host": host.format(port=own)}, auth=auth)
    assert answer.status_code == httpx.codes.FORBIDDEN


def raw(port, text):
    with socket.create_connection(("127.0.0.1", port)) as there:
        there.sendall(text.encode())
        return there.recv(64).decode().split()[1]


def test_two_hosts_or_none_are_refused(own):
    ours = f"Host: 127.0.0.1:{own}\r\n"
    assert raw(own, f"GET /api/health HTTP/1.1\r\n{ours}Connection: close\r\n\r\n") == "200"
    assert raw(own, f"GET /api/health HTTP/1.1\r\n{ours}Host: evil.example\r\n\r\n") in ("400", "403")
    assert raw(own, "GET /api/health HTTP/1.0\r\n\r\n") in ("400", "403")


@pytest.mark.parametrize("path", ["/api/events/in", "/api/events/out", "/api/logs/out"])
def test_a_websocket_of_another_site_is_refused_before_it_is_accepted(own, path):
    for headers in ({"origin": EVIL}, {"origin": "null"}):
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{own}{path}", subprotocols=["prefect"], proxy=None, **headers)


@pytest.mark.parametrize("path", ["/api/events/out", "/api/logs/out"])
def test_a_websocket_needs_the_password(own, auth, path):
    import json

    def answered(token):
        with connect(f"ws://127.0.0.1:{own}{path}", subprotocols=["prefect"], proxy=None) as there:
            there.send(json.dumps({"type": "auth", "token": token}))
            return json.loads(there.recv(timeout=30))["type"]

    assert answered(":".join(auth)) == "auth_success"
    with pytest.raises(Exception, match=r"1008|policy"):
        answered("guess")


@pytest.mark.in_ci()
@pytest.mark.parametrize("given", ["", "tapeline:guess"])
@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (("run", "--pipeline", "tiny"), "training"),
        (("promote", "--pipeline", "tiny", "--stage", "dev"), "promotion"),
        (("sweep", "--pipeline", "tiny", "--min", "distance", "--over", "train.epochs=[6, 7]"), "sweep"),
        (("deploy",), "deploy"),
        (("serve",), "serve"),
    ],
)
def test_a_command_that_is_refused_says_what_to_set(project, own, root, arguments, program, given):
    """It was a traceback of a hundred lines, or a server that "does not answer"."""
    folder = project()
    serving.prepare(folder)
    serving.write(folder, serving.entry("a"))
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PREFECT_API_URL": f"http://127.0.0.1:{own}/api"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tapeline", *arguments],
        cwd=folder,
        env=environment | ({"PREFECT_API_AUTH_STRING": given} if given else {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = "the Prefect server rejects the password: set PREFECT_API_AUTH_STRING to the one it was started with"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"{program}: {said}")
    assert "Traceback" not in done.stderr


def test_its_files_are_for_its_user_alone(state, own, client, auth):
    client.post("/api/flows/", json={"name": "written"}, auth=auth)
    found = [state / "prefect", *(state / "prefect").rglob("*")]
    assert {path.name for path in found} >= {"auth", "prefect.db", "prefect.db-wal", "prefect.db-shm"}
    for path in found:
        if path.is_dir() or path.name.startswith(("prefect.db", "auth")):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_no_command_line_has_the_password(own, auth):
    lines = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert any("uvicorn" in (line or ()) for line in lines)
    secret = auth[1]
    assert not [line for line in lines if secret in " ".join(line or ())]


def test_a_port_that_another_has_taken_is_refused(state):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            RunError, match=f"port {port} cannot be used .*: give another --port, or, .* PREFECT_API_URL"
        ):
            serve.listening(port)


def servers_of(folder):
    return [
        found
        for found in psutil.process_iter(["cmdline", "environ"])
        if "uvicorn" in (found.info["cmdline"] or ())
        and str(folder) in str((found.info["environ"] or {}).get("PREFECT_HOME"))
    ]


def test_a_server_that_dies_is_started_again_while_this_process_waits_for_its_answer(tmp_path, with_database):
    with_database(tmp_path)
    said = []
    with serve.listening(0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/api/health"
        with KeptServer(tmp_path / ".tapeline", listener=listener, say=said.append, pause=0.0) as server:
            for _ in range(2):
                [process] = servers_of(tmp_path)
                process.kill()
                process.wait()
                assert httpx.get(address, trust_env=False, timeout=120).status_code == httpx.codes.OK
                server.check()
        assert said == ["the server was killed; restarting it"] * 2
        assert not servers_of(tmp_path)


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [("setting", RunError, "the Prefect server did not start"), ("program", OSError, "nowhere")],
)
def test_a_server_that_cannot_be_started_again_keeps_nobody_waiting(
    tmp_path, monkeypatch, with_database, where, error, said
):
    with_database(tmp_path)
    with serve.listening(0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/api/health"
        with KeptServer(tmp_path / ".tapeline", listener=listener, say=print, pause=0.0) as server:
            if where == "setting":
                monkeypatch.setenv("PREFECT_SERVER_DATABASE_TIMEOUT", "nonsense")
            else:
                monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
            [process] = servers_of(tmp_path)
            process.kill()
            process.wait()
            with pytest.raises(httpx.TransportError):
                httpx.get(address, trust_env=False, timeout=120)
            with pytest.raises(error, match=said):
                server.check()


def test_the_next_server_has_a_new_password_where_the_old_one_was_removed(tmp_path, with_database, until):
    with_database(tmp_path)
    with serve.listening(0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/api/flows/count"
        with KeptServer(tmp_path / ".tapeline", listener=listener, say=print, pause=0.0) as server:
            before = server.auth
            (tmp_path / ".tapeline" / credentials.FOLDER / credentials.FILE).unlink()
            [process] = servers_of(tmp_path)
            process.kill()
            process.wait()
            ask = {"json": {}, "trust_env": False, "timeout": 120}
            assert httpx.post(address, auth=tuple(before.split(":")), **ask).status_code == httpx.codes.UNAUTHORIZED
            until(lambda: server.auth != before)
            assert httpx.post(address, auth=tuple(server.auth.split(":")), **ask).status_code == httpx.codes.OK


def test_nobody_can_take_the_port_of_a_server_that_died(tmp_path, with_database):
    with_database(tmp_path)
    with serve.listening(0) as listener:
        port = listener.getsockname()[1]
        with LocalServer(tmp_path / ".tapeline", say=print, listener=listener) as server:
            server.ready()
            [process] = servers_of(tmp_path)
            process.kill()
            process.wait()
            with pytest.raises(OSError, match="in use"):
                socket.create_server(("127.0.0.1", port))
        answers = []
        waiting = threading.Thread(
            target=lambda: answers.append(httpx.get(f"http://127.0.0.1:{port}/api/health", trust_env=False, timeout=90))
        )
        waiting.start()
        with LocalServer(tmp_path / ".tapeline", say=print, listener=listener) as server:
            server.ready()
            waiting.join(90)
            assert answers[0].status_code == httpx.codes.OK


def test_a_server_that_ends_at_once_is_told_at_once(tmp_path, monkeypatch, with_database):
    folder = tmp_path / "a project"
    with_database(folder)
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_TIMEOUT", "nonsense")
    with serve.listening(0) as listener, LocalServer(folder / ".tapeline", say=print, listener=listener) as server:
        with pytest.raises(RunError, match=rf"the Prefect server did not start.*rm -r '{folder}/[^ ]*'\)"):
            server.ready()


@pytest.fixture
def many_files():
    """More open files than `select` can watch."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_program_with_a_thousand_open_files_can_start_one(tmp_path, with_database, many_files):
    with_database(tmp_path)
    with serve.listening(0) as listener, LocalServer(tmp_path / ".tapeline", say=print, listener=listener) as server:
        assert server.ready().endswith(f":{listener.getsockname()[1]}/api")


@pytest.mark.parametrize(
    "name",
    [
        "PREFECT_SERVER_API_AUTH_STRING",
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS",
    ],
)
def test_a_setting_that_would_open_it_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "*")
    with serve.listening(0) as listener, pytest.raises(InputError, match=f"^{name}: .*unset it"):
        LocalServer(tmp_path, say=print, listener=listener).__enter__()
    assert os.environ[name] == "*"
