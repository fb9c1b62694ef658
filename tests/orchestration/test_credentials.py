"""The password of Tapeline's own servers: where it is, who may read it, and who is told it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from urllib.request import proxy_bypass_environment

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.connection import credentials, discovery
from tapeline.runtime.errors import InputError

OWN = "http://127.0.0.1:4200/api"


@pytest.fixture
def file(tmp_path):
    """The file, made."""
    credentials.auth(tmp_path)
    return tmp_path / "prefect/auth"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_long_private_and_stays(tmp_path, file):
    text = credentials.auth(tmp_path)
    assert text.startswith("tapeline:")
    assert len(text.removeprefix("tapeline:")) >= 43
    assert credentials.auth(tmp_path) == text
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == ["auth"]


def test_each_project_has_another(tmp_path):
    assert credentials.auth(tmp_path / "a") != credentials.auth(tmp_path / "b")


def test_of_many_that_make_it_one_counts(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: credentials.auth(tmp_path), range(64)))
    assert len(found) == 1


def test_the_folder_of_an_older_version_becomes_private(tmp_path):
    (tmp_path / "prefect").mkdir(mode=0o755)
    credentials.auth(tmp_path)
    assert mode(tmp_path / "prefect") == 0o700


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o602, 0o601])
def test_one_that_others_can_use_is_refused(tmp_path, file, bits):
    file.chmod(bits)
    with pytest.raises(InputError, match=f"has mode {bits:04o}, so others can use it: remove it"):
        credentials.auth(tmp_path)


@pytest.mark.parametrize("text", ["", "\n", "tapeline:short", "tapeline:" + "a" * 32 + "\nmore", "é" * 40, "a" * 9999])
def test_nonsense_is_refused(tmp_path, file, text):
    file.write_text(text)
    with pytest.raises(InputError, match="is not as Tapeline writes it"):
        credentials.auth(tmp_path)
    assert file.read_text() == text


def test_a_link_and_a_pipe_are_refused(tmp_path, file):
    real = file.rename(file.with_name("elsewhere"))
    file.symlink_to(real)
    with pytest.raises(InputError, match="cannot be read"):
        credentials.auth(tmp_path)
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(InputError, match="not a regular file"):
        credentials.auth(tmp_path)


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "prefect").symlink_to("real")
    with pytest.raises(InputError, match="your own folder, not a link"):
        credentials.auth(tmp_path)
    assert list((tmp_path / "real").iterdir()) == []
    (tmp_path / "prefect").unlink()
    (tmp_path / "prefect").touch()
    with pytest.raises(InputError, match="your own folder, not a link"):
        credentials.auth(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("name", ["prefect", "prefect/auth"])
def test_another_user_s_is_refused(tmp_path, file, name):
    os.chown(tmp_path / name, 65534, 65534)
    with pytest.raises(InputError, match="belongs to another user"):
        credentials.auth(tmp_path)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, tmp_path / ".tapeline", tmp_path / ".tapeline")


def test_only_our_own_server_is_told_it(project):
    with discovery.serving(project, OWN, ours=True):
        known = credentials.auth(project.shared)
        assert discovery.auth_for(project, OWN) == known
        assert discovery.auth_for(project, "http://localhost:4200/api/") == known
        for other in ("http://127.0.0.1:4201/api", "https://127.0.0.1:4200/api", "http://there:4200/api"):
            assert discovery.auth_for(project, other) == ""
    assert discovery.auth_for(project, OWN) == "", "nobody holds its port any more"


def test_a_server_of_the_user_s_own_that_is_served_is_told_nothing(project):
    with discovery.serving(project, OWN):
        assert discovery.server(project) == OWN
        assert discovery.auth_for(project, OWN) == ""


def test_what_the_user_has_set_for_another_server_stays(project, monkeypatch):
    for name in ("PREFECT_API_URL", "NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:mine")
    with discovery.used(project, "http://there/api"):
        assert os.environ["PREFECT_API_AUTH_STRING"] == "me:mine"
    with discovery.serving(project, OWN, ours=True), discovery.used(project, OWN):
        assert os.environ["PREFECT_API_AUTH_STRING"] == credentials.auth(project.shared)


@pytest.mark.parametrize("names", [("NO_PROXY",), ("no_proxy",), ("NO_PROXY", "no_proxy")])
@pytest.mark.parametrize("hosts", ["*", "there"])
def test_hosts_without_a_proxy_stay_so(monkeypatch, names, hosts):
    for name in ("PREFECT_API_URL", "NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name in names:
        monkeypatch.setenv(name, hosts)
    for _ in range(2):
        discovery.use(OWN)
    without = [host for host in ("127.0.0.1", "localhost", "there", "else") if proxy_bypass_environment(host)]
    assert without == ["127.0.0.1", "localhost", "there", *(["else"] if hosts == "*" else [])]
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_another_user_serves_does_not_count(project):
    with discovery.serving(project, OWN, ours=True):
        os.chown(project.shared / discovery.SERVED, 65534, 65534)
        assert discovery.server(project) == ""
