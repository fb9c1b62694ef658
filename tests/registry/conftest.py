"""Registries of real Git and DVC repositories, made once a session and copied for each test."""

import subprocess

import pytest
from keys import Gpg, Person, govern
from registries import Registry


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """One pipeline, built and pushed; no version yet."""
    return Registry.make(tmp_path_factory.mktemp("built") / "project")


@pytest.fixture(scope="session")
def released(built, tmp_path_factory):
    """The versions v1.0.0, v1.0.1 and v1.0.2; the first two were promoted to prod, one after the other."""
    registry = built.copy(tmp_path_factory.mktemp("released"))
    registry.versions(1, 2, 3)
    for version in ("v1.0.0", "v1.0.1"):
        registry("registry", "promote", f"one@{version}", "prod")
    return registry


@pytest.fixture
def fresh(built, tmp_path):
    """A copy of `built` of the test's own."""
    return built.copy(tmp_path)


@pytest.fixture
def registry(released, tmp_path):
    """A copy of `released` of the test's own."""
    return released.copy(tmp_path)


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """Ana and Ben may much, Eve nothing; Eve has a key all the same."""
    folder = tmp_path_factory.mktemp("keys")
    return [Person.made(folder, name) for name in ("Ana", "Ben", "Eve")]


@pytest.fixture(scope="session")
def governed(built, people, tmp_path_factory):
    """A registry with a policy; Ana has registered v1.0.0 and promoted it, approved by Ben."""
    ana, ben, eve = people
    registry = built.copy(tmp_path_factory.mktemp("governed"))
    govern(registry, ana.line() + ben.line() + eve.line())
    ana.at(registry)("registry", "register", "one")
    ben.at(registry)("registry", "approve", "one@v1.0.0", "--stage", "prod")
    ana.at(registry)("registry", "promote", "one", "prod")
    return registry


@pytest.fixture(scope="session")
def gnupg(tmp_path_factory):
    """A GPG key that has expired."""
    home = tmp_path_factory.mktemp("g")  # a short name, for gpg's sockets
    yield Gpg.generated(home, 1_700_000_000 - 1000)  # 2023-11-14; a key of the future is none
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
