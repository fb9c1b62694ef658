"""What a release holds: the files that Git has of the package and nothing else of the checkout, the same bytes each time."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from hashlib import sha256

import pytest

BESIDE = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
SECRETS = (
    ".dvc/config.local",
    ".dvc/config.local.toml",
    ".git/config",
    ".netrc",
    ".pypirc",
    ".tapeline/prefect/auth",
    ".tapeline/prefect/prefect.db",
    "serving/digits/1/saved_model/saved_model.pb",
    ".env",
    "data/raw/customers.csv",
    "notes.txt",
    "src/.env",
    "src/other/config.local",
    "src/tapeline/.dvc/config.local",
    "src/tapeline/.env",
    "src/tapeline/id_rsa",
    "src/tapeline/recipes/customers.csv",
    "src/tapeline/scaffold/.pypirc",
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


def built(checkout, kind, out, *, umask=-1, **more):
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, env={**environment, **more}, umask=umask)
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


@pytest.fixture(scope="module")
def clone(checkout, tmp_path_factory):
    """The same in a clone by somebody who lets nobody read, made later."""
    folder = tmp_path_factory.mktemp("elsewhere") / "a clone"
    origin = tmp_path_factory.mktemp("origin") / "repository"
    shutil.copytree(checkout, origin, ignore=shutil.ignore_patterns(".git"))
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "core.hooksPath=/dev/null")
    for command in (["init", "--quiet"], ["add", "--force", "--all"], [*who, "commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *command], cwd=origin, check=True, capture_output=True)
    subprocess.run(["git", "clone", "--quiet", str(origin), str(folder)], check=True, capture_output=True, umask=0o077)
    for path in folder.rglob("*"):
        os.utime(path, (time.time(), 1e9), follow_symlinks=False)
    return folder


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_a_release_is_built_to_the_same_bytes_elsewhere(checkout, clone, kind, tmp_path):
    first = built(checkout, kind, tmp_path / "first", umask=0o022, TZ="UTC", LC_ALL="C.UTF-8", PYTHONHASHSEED="1")
    other = {"TZ": "Pacific/Auckland", "LC_ALL": "POSIX", "PYTHONHASHSEED": "2", "HOME": str(tmp_path)}
    second = built(clone, kind, tmp_path / "second", umask=0o077, **other)
    assert first.name == second.name
    assert sha256(first.read_bytes()).hexdigest() == sha256(second.read_bytes()).hexdigest()
