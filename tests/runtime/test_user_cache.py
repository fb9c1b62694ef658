"""What is computed once for each user, and believed only if nobody else can have written it."""

import os
import time

import pytest

from tapeline.runtime import user_cache


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def asked():
    """Return a function that asks for a key, and the answers that were computed."""
    computed = []

    def ask(key="key", answer="0123"):
        return user_cache.remembered("code", key, lambda: computed.append(answer) or answer)

    return ask, computed


def test_it_is_computed_once_for_each_key_in_a_folder_of_ones_own(home, asked):
    ask, computed = asked
    assert [ask(), ask(answer="other"), ask("another", "45")] == ["0123", "0123", "45"]
    assert computed == ["0123", "45"]
    assert (home / "tapeline" / "code").stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in (home / "tapeline" / "code").iterdir()] == [0o600, 0o600]


def forged_file(folder):
    (folder / "key").unlink()
    (folder / "key").write_text("4567")
    (folder / "key").chmod(0o646)


def forged_link(folder):
    (folder / "elsewhere").write_text("4567")
    (folder / "key").unlink()
    (folder / "key").symlink_to(folder / "elsewhere")


def cut(folder):
    (folder / "key").write_bytes(b"")


def binary(folder):
    (folder / "key").write_bytes(b"\xff\x00")


def fifo(folder):
    (folder / "key").unlink()
    os.mkfifo(folder / "key")


def open_folder(folder):
    folder.chmod(0o777)


def open_top(folder):
    folder.parent.chmod(0o770)


@pytest.mark.parametrize("forge", [forged_file, forged_link, cut, binary, fifo, open_folder, open_top])
def test_what_somebody_else_may_have_written_is_not_believed(home, asked, forge):
    ask, computed = asked
    ask()
    forge(home / "tapeline" / "code")
    assert ask() == "0123"
    assert computed == ["0123", "0123"]


@pytest.mark.parametrize("folder", ["relative", "/dev/null", "/proc/none"])
def test_without_a_folder_it_is_computed_each_time(monkeypatch, asked, folder):
    monkeypatch.setenv("XDG_CACHE_HOME", folder)
    ask, computed = asked
    assert [ask(), ask()] == computed == ["0123", "0123"]


def test_an_answer_that_is_no_short_line_is_not_kept(home, asked):
    ask, computed = asked
    for answer in ("", "a\nb", "x" * 300):
        assert ask(answer=answer) == answer
    assert len(computed) == 3


def test_the_oldest_go(home, asked, monkeypatch):
    monkeypatch.setattr(user_cache, "KEPT", 3)
    ask, _ = asked
    for number in range(5):
        ask(str(number))
        if number < 4:
            os.utime(home / "tapeline" / "code" / str(number), (number, time.time() - 100 + number))
    assert sorted(path.name for path in (home / "tapeline" / "code").iterdir()) == ["2", "3", "4"]
