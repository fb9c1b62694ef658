"""Registries of real Git and DVC repositories, made once a session and copied for each test."""

import pytest
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
