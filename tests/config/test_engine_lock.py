"""`engine.lock`: written, compared, and refused by a stage whose code is another."""

import re
import shutil
from importlib import metadata

import pytest

from tapeline.config import engine_lock
from tapeline.runtime import closure
from tapeline.runtime.errors import InputError


def test_written_once_it_is_current(tmp_path):
    assert engine_lock.recorded(tmp_path) is None
    assert engine_lock.write(tmp_path) == [*engine_lock.STAGES]
    written = (tmp_path / engine_lock.LOCK).stat().st_mtime_ns
    assert engine_lock.write(tmp_path) == engine_lock.changed(tmp_path) == []
    assert (tmp_path / engine_lock.LOCK).stat().st_mtime_ns == written
    assert all(re.fullmatch("[0-9a-f]{16}", value) for value in engine_lock.recorded(tmp_path).stages.values())
    engine_lock.check(tmp_path, *engine_lock.STAGES)


def test_a_stage_of_another_code_is_refused_and_named(tmp_path):
    engine_lock.write(tmp_path)
    path = tmp_path / engine_lock.LOCK
    path.write_text(path.read_text().replace(engine_lock.current("export"), "0123456789abcdef"))
    engine_lock.check(tmp_path, "ingest", "train", "validate")
    with pytest.raises(InputError, match="engine.lock says that export is the code 0123456789abcdef, and here it is"):
        engine_lock.check(tmp_path, "train", "export")
    assert engine_lock.changed(tmp_path) == ["export"]
    assert engine_lock.write(tmp_path) == ["export"]
    engine_lock.check(tmp_path, "export")


def test_another_library_is_refused_and_named(tmp_path):
    engine_lock.write(tmp_path)
    path, version = tmp_path / engine_lock.LOCK, metadata.version("keras")
    path.write_text(path.read_text().replace(f'keras: "{version}"', 'keras: "3.1.0"'))
    with pytest.raises(InputError, match=rf"has keras 3\.1\.0, but {version} is installed: .*upgrade.*tapeline lock"):
        engine_lock.check(tmp_path)
    assert engine_lock.differences(tmp_path) == [f"keras {version} is installed, not 3.1.0"]
    assert engine_lock.changed(tmp_path) == [*engine_lock.STAGES]
    assert engine_lock.write(tmp_path) == [*engine_lock.STAGES]
    engine_lock.check(tmp_path, *engine_lock.STAGES)


def test_the_form_before_libraries_is_one_line(tmp_path):
    (tmp_path / engine_lock.LOCK).write_text("".join(f'{stage}: "0"\n' for stage in engine_lock.STAGES))
    with pytest.raises(InputError, match="an older Tapeline wrote it: `tapeline upgrade` migrates it"):
        engine_lock.check(tmp_path)


def test_without_the_file_nothing_is_refused(tmp_path):
    engine_lock.check(tmp_path, *engine_lock.STAGES)


@pytest.mark.parametrize("text", ["", "train: 1", "[1, 2]", "train: {", "a: 1\nb: 2\n"])
def test_another_form_is_one_line_and_is_written_anew(tmp_path, text):
    (tmp_path / engine_lock.LOCK).write_text(text)
    with pytest.raises(InputError, match="tapeline lock") as refused:
        engine_lock.check(tmp_path, "train")
    assert "\n" not in str(refused.value)
    assert engine_lock.write(tmp_path) == [*engine_lock.STAGES]


def test_the_hash_is_remembered_for_the_same_files_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = tmp_path / "tapeline"
    shutil.copytree(closure.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    content = engine_lock._content.__wrapped__  # a process asks once
    first = content(package)
    assert first == content(closure.PACKAGE)
    (package / "train" / "__pycache__").mkdir()
    (package / "train" / "__pycache__" / "stage.py").write_text("")
    assert content(package) == first
    path = package / "runtime" / "code.py"
    path.write_text(path.read_text() + "# another byte\n")
    assert (second := content(package)) != first
    (package / "numpy.py").write_text("")
    assert content(package) not in (first, second)
    (package / "linked").symlink_to(tmp_path)
    assert content(package) is None
    engine_lock.current.cache_clear()
    computed = engine_lock.current("ingest")
    monkeypatch.setattr(engine_lock, "_computed", lambda stage: "computed again")
    engine_lock.current.cache_clear()
    assert engine_lock.current("ingest") == computed
    assert engine_lock.current("train") == "computed again"
    engine_lock.current.cache_clear()
