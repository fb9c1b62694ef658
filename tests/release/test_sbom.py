"""The bill of materials is CycloneDX, complete, and the same bytes for the same wheel."""

import hashlib
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from referencing import Registry, Resource

from release import licences, locked

SCHEMAS = Path(__file__).with_name("schema")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    path = tmp_path_factory.mktemp("dist") / "tapeline-0.1.0-py3-none-any.whl"
    path.write_bytes(b"a wheel")
    return path


def printed(wheel, root, **environment):
    command = [sys.executable, "-m", "release.sbom", str(wheel)]
    return subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def bill(wheel, root):
    return json.loads(printed(wheel, root))


@pytest.fixture(scope="module")
def validator():
    read = {path.name: json.loads(path.read_bytes()) for path in SCHEMAS.glob("*.json")}
    registry = Registry().with_resources(
        (f"http://cyclonedx.org/schema/{name}", Resource.from_contents(schema)) for name, schema in read.items()
    )
    return jsonschema.Draft7Validator(read["bom-1.6.SNAPSHOT.schema.json"], registry=registry)


def test_it_is_cyclonedx(bill, validator):
    validator.validate(bill)
    refused = {**bill, "components": [{**bill["components"][0], "scope": "sometimes"}]}
    assert not validator.is_valid(refused)


def test_it_has_the_wheel_and_what_the_lock_has_for_running_it(bill, wheel):
    own = bill["metadata"]["component"]
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    names = {one["name"] for one in bill["components"]}
    assert {"tensorflow", "dvc", "prefect", "pywin32"} <= names
    assert not names & {"pytest", "hypothesis", "mypy", "ruff", "uv", "gymnasium"}
    for one in bill["components"]:
        assert one["licenses"][0]["expression"] not in ("", licences.UNKNOWN)
        assert one["externalReferences"][0]["hashes"]


def test_nothing_that_an_installed_tapeline_needs_is_missing(bill):
    """The lock's comments say who needs whom; the installed distributions' own metadata agree."""
    names, needed, new = {canonicalize_name(one["name"]) for one in bill["components"]}, set(), {"tapeline"}
    while new:
        needed |= new
        new = {name for one in new for name in requirements(one)} - needed
    assert needed - {"tapeline"} <= names


def requirements(name):
    """What a distribution needs here, without its extras."""
    for text in metadata.requires(name) or []:
        one = Requirement(text)
        if not one.marker or one.marker.evaluate({**default_environment(), "extra": ""}):
            yield canonicalize_name(one.name)


def test_each_reference_is_of_one_component(bill):
    refs = [bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])]
    assert len(set(refs)) == len(refs) == len(bill["dependencies"])
    assert {one["ref"] for one in bill["dependencies"]} == set(refs)
    assert {ref for one in bill["dependencies"] for ref in one["dependsOn"]} == set(refs[1:]), "each is needed by some"


def test_it_is_the_same_in_other_surroundings_and_another_one_for_another_wheel(wheel, root, tmp_path, bill):
    first = printed(wheel, root, TZ="Pacific/Auckland", LC_ALL="C", PYTHONHASHSEED="1")
    assert first == printed(wheel, root, TZ="UTC", LC_ALL="C.UTF-8", PYTHONHASHSEED="2")
    (tmp_path / "other.whl").write_bytes(b"another")
    assert json.loads(printed(tmp_path / "other.whl", root))["serialNumber"] != bill["serialNumber"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a>=1\n    --hash=sha256:0\n    # via b\n", "is no NAME==VERSION"),
        ("a==1\n    # via b\n", "no hash"),
        ("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\n", "not who needs it"),
    ],
)
def test_a_lock_of_another_kind_is_refused(tmp_path, text, said):
    (tmp_path / "lock").write_text(text)
    with pytest.raises(ValueError, match=said):
        locked.read(tmp_path / "lock")
