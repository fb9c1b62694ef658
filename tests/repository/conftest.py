"""A new project for each test: a copy, since `tapeline init` calls DVC three times, which takes seconds."""

import shutil

import pytest

from tapeline.scaffold.init import init


@pytest.fixture(scope="session")
def initialized(tmp_path_factory):
    """A project that nobody changes."""
    folder = tmp_path_factory.mktemp("project")
    init(folder, say=lambda line: None)
    return folder


@pytest.fixture
def project(initialized, tmp_path):
    """The folder of a new project."""
    return shutil.copytree(initialized, tmp_path, symlinks=True, dirs_exist_ok=True)
