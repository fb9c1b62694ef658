"""What a release holds: the files that Git has of the package and nothing else of the checkout, the same bytes each time."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest

BESIDE = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
SECRETS = (
    ".dvc/config.local",
    ".env",
    "data/raw/customers.csv",
    "notes.txt",
    "src/tapeline/.env",
    "src/tapeline/id_rsa",
    "src/tapeline/recipes/customers.csv",
    "tests/token.json",
)


@pytest.fixture(scope="module")
def checkout(root, tmp_path_factory):
    """A copy of what is to be released, beside files that nobody else may see."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(root / "src" / "tapeline", folder / "src" / "tapeline")
    for name in BESIDE:
        shutil.copy2(root / name, folder / name)
    for name in SECRETS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("password")
    return folder


def built(checkout, kind, out):
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, env=environment)
    [archive] = out.iterdir()
    return archive


@pytest.fixture(scope="module")
def package(root):
    """What Git has of the package."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src/tapeline"], cwd=root, check=True, capture_output=True, text=True
    )
    return set(listed.stdout.split("\0")) - {""}


def test_the_source_distribution_holds_the_package_and_nothing_else(checkout, package, tmp_path):
    with tarfile.open(built(checkout, "sdist", tmp_path / "out")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {*package, *BESIDE, "PKG-INFO"}


def test_the_wheel_holds_the_package_and_nothing_else(checkout, package, tmp_path):
    with zipfile.ZipFile(built(checkout, "wheel", tmp_path / "out")) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in package}
    assert "tapeline/py.typed" in names


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_a_release_is_built_to_the_same_bytes_again(checkout, kind, tmp_path):
    first = built(checkout, kind, tmp_path / "first").read_bytes()
    again = tmp_path / "a checkout elsewhere"
    shutil.copytree(checkout, again, copy_function=shutil.copy)  # with other times
    os.utime(again / "pyproject.toml", (time.time(), 0))
    assert built(again, kind, tmp_path / "second").read_bytes() == first
