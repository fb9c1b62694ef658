"""Settings as `params.yaml` gives them, ingested into a project folder of the test's own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import tapeline
from tapeline.config.ingest import BuilderSource, IngestSettings
from tapeline.ingest.stage import ingest
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


@pytest.fixture(scope="session")
def builders() -> Path:
    """The folder of our own TFDS builders."""
    return Path(tapeline.__file__).parent / "builders"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def ingested(project: Path, tmp_path: Path) -> Callable[..., Path]:
    def run(settings: dict[str, Any], *, out: str = "data/set", work: str = "work") -> Path:
        checked = TypeAdapter(IngestSettings).validate_json(json.dumps(settings))
        ingest("set", checked, project=project, out=project / out, work=tmp_path / work)
        return project / out

    return run


@pytest.fixture
def refused(ingested: Callable[..., Path], project: Path) -> Callable[[dict[str, Any], str], None]:
    """Check that settings are refused in one line that holds a text, and that nothing was written."""

    def run(settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=re.escape(message)) as caught:
            ingested(settings)
        assert len(str(caught.value).splitlines()) == 1
        assert not any(project.glob("data/*"))
        assert not any(project.glob("data/.*"))

    return run


@pytest.fixture
def hashes() -> Callable[[Path], dict[str, str]]:
    def of(folder: Path) -> dict[str, str]:
        inside = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): files.sha256(path) for path in inside}

    return of


@pytest.fixture(scope="session")
def digits(builders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset `digits`, as the project's own `params.yaml` cuts it."""
    folder = tmp_path_factory.mktemp("digits")
    settings = BuilderSource(source="builder", needs="optdigits.py", validation=0.1)
    ingest("digits", settings, project=builders, out=folder / "out", work=folder / "work")
    return folder / "out"
