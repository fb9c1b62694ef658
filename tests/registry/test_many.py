"""A registry with a thousand versions: a promotion reads them all at once, and looks into those that matter."""

import resource
import subprocess

import pytest

TURNS = 5


def fill(registry, count):
    """Give the model further versions, each on a commit of its own with the record of v1.0.0, by one call of Git."""
    head = registry.git("rev-parse", "HEAD").strip()
    body = registry.git("for-each-ref", "--format=%(contents)", "refs/tags/one@v1.0.0")
    who, stream = "Ann <ann@example.org> 1700000000 +0000", []
    for number in range(1, count):
        parent = head if number == 1 else f":{number - 1}"
        stream.append(f"commit refs/heads/more\nmark :{number}\ncommitter {who}\ndata 1\nx\nfrom {parent}\n")
        commit = f"{number:040x}"
        stream.append(f"tag one@v0.0.{number}\nfrom :{number}\ntagger {who}\n{_data(body.replace(head, commit))}")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=registry.folder, input="".join(stream), text=True, check=True)
    registry.git("pack-refs", "--all")


def _data(text):
    return f"data {len(text.encode())}\n{text}\n"


def seconds(registry, *command):
    """Return the CPU time of a command and of what it called."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    registry(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.long
def test_a_promotion_with_a_thousand_versions(fresh, tmp_path):
    fresh("registry", "register", "one")
    many = fresh.copy(tmp_path / "many")
    fill(many, 1000)
    times = {fresh: [], many: []}
    for turn in range(TURNS):
        for registry, found in times.items():
            stage = ("prod", "staging")[turn % 2]
            found.append(seconds(registry, "registry", "promote", "one@v1.0.0", stage))
            registry.git("tag", "--delete", f"one#{stage}#{turn + 1}")
    few, lots = times.values()
    assert min(lots) < 3 * min(few), (few, lots)  # one call of Git for each version would be a hundred times as much
