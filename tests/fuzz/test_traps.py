"""Traps laid in a project's files, and what the real commands do with them: one line, soon, and nothing of them runs."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.fuzz.test_command_line import call, fifo, project, refused, repository  # noqa: F401  # fixtures

SHELL = [
    "x;touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a|touch pwned",
    "a\ntouch pwned",
    "a b",
    "../a",
    "-h",
    "a&",
    "",
]
DVC_YAML = (Path(__file__).parents[2] / "dvc.yaml").read_text().partition("\nartifacts:")[0]

WHO = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


def named(folder, name, kind):
    """Give the dataset or the pipeline another name."""
    path = folder / "params.yaml"
    content = yaml.safe_load(path.read_text())
    [entry] = content[kind].values()
    content[kind] = {name: entry}
    if kind == "datasets":
        content["pipelines"]["long"]["dataset"] = name
    path.write_text(yaml.safe_dump(content))


@pytest.mark.parametrize("kind", ["datasets", "pipelines"])
@pytest.mark.parametrize("name", SHELL, ids=ascii)
def test_a_name_for_a_shell_is_no_name(project, kind, name):  # noqa: F811
    from tapeline.config.params import Params
    from tapeline.runtime.errors import InputError

    named(project, name, kind)
    with pytest.raises(InputError, match="is not a name: use lower-case letters, digits and inner hyphens") as raised:
        Params.load(project)
    assert str(raised.value).isprintable()
    assert not Params.sound(project)[0].pipelines, "no command may hand it to DVC"


@pytest.mark.parametrize(
    "command",
    [("init",), ("list", "--targets"), pytest.param(("run", "--pipeline", "long"), marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_a_name_for_a_shell_reaches_none_by_a_command(repository, root, command):  # noqa: F811
    (repository / "dvc.yaml").write_text(DVC_YAML + "\n")
    named(repository, "$(touch pwned)", "pipelines")
    answer = call(repository, "tapeline", *command, root=root)
    assert answer.returncode == 2 and not answer.stdout.strip() and "Traceback" not in answer.stderr
    assert command[0] == "run" or "'$(touch pwned)' is not a name" in answer.stderr
    assert not (repository / "pwned").exists()


@pytest.mark.slow
def test_bare_dvc_repro_hands_it_to_a_shell(repository, root):  # noqa: F811
    """DVC knows no rule for names. Who repeats the stages of others runs their code anyway: their recipes."""
    (repository / "dvc.yaml").write_text(DVC_YAML + "\n")
    shutil.copy(root / "engine.lock", repository)
    named(repository, "$(touch pwned)", "datasets")
    command = [sys.executable, "-m", "dvc", "repro", "ingest@$(touch pwned)"]
    subprocess.run(command, cwd=repository, check=False, capture_output=True, timeout=60)
    assert (repository / "pwned").exists()


def test_make_stops_where_a_name_is_none(root):
    """What `make gallery` gives to `dvc repro` without a target would be all of `dvc.yaml`."""
    text = (root / "Makefile").read_text()
    assert text.count("dvc --wait-for-lock repro") == 1
    [line] = [line for line in text.splitlines() if "dvc --wait-for-lock repro" in line]
    recipe = (
        line.strip().replace("$$", "$").replace("../$(BIN)/tapeline list", "./list").replace("../$(BIN)/dvc", "./dvc")
    )
    script = recipe.removeprefix("cd gallery && ")
    for status, ran in ((2, []), (0, ["--wait-for-lock repro export@a export@b"])):
        shell = f'list() {{ echo export@a; echo export@b; return {status}; }}; dvc() {{ echo "$*"; }}\n'
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", shell + script.replace("./", "")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (bool(answer.returncode), answer.stdout.splitlines()) == (bool(status), ran)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("fifo", "rows.csv is a FIFO, a socket or a device, not a file: give a file, or remove it"),
        ("loop", "rows.csv "),  # "is not a file's name" until Python 3.12, "does not exist" from 3.13 on
        ("device", "/dev/zero is a FIFO, a socket or a device, not a file"),
        ("folder", "rows.csv has no train/<class>/<image>"),
        ("pictures", "x.png is a FIFO, a socket or a device, not a file"),
    ],
)
def test_data_to_begin_with_that_is_no_file(tmp_path, root, kind, said):
    rows = tmp_path / "rows.csv"
    if kind == "fifo":
        fifo(rows)
    elif kind == "loop":
        rows.symlink_to(rows)
    elif kind == "device":
        rows.symlink_to("/dev/zero")
    else:
        rows.mkdir()
    if kind == "pictures":
        (rows / "train/a").mkdir(parents=True)
        fifo(rows / "train/a/x.png")
    refused(call(tmp_path, "tapeline", "init", "new", "--data", "rows.csv", root=root), said)
    assert not (tmp_path / "new").exists()


ESCAPE = "\x1b]0;pwned\x07\x1b[2J"


def in_a_terminal(folder, *arguments, root):
    """Return what a command writes to a terminal."""
    outer, inner = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "tapeline", *arguments], cwd=folder, env=environment, stdout=inner, stderr=inner
    ):
        os.close(inner)
        found = b""
        while True:
            try:
                more = os.read(outer, 65536)
            except OSError:  # the other end is closed
                break
            found += more
    os.close(outer)
    return found.decode()


@pytest.mark.slow
@pytest.mark.parametrize("command", [("list",), ("metrics",), ("ingest", "points"), ("doctor",)], ids=" ".join)
def test_a_terminal_is_told_nothing_by_a_file(project, root, command):  # noqa: F811
    (project / "recipe.py").write_text(f'"""Learns {ESCAPE}."""\n')
    (project / "runs/long/validate").mkdir(parents=True)
    (project / "runs/long/validate/metrics.json").write_text('{"\\u001b]0;pwned\\u0007": 0.5}')
    header = f"x1,x2,y{ESCAPE}\n"
    (project / "points.csv").write_text(header + "".join(f"{n},1,{'ab'[n % 2]}{ESCAPE}\n" for n in range(9)))
    content = yaml.safe_load((project / "params.yaml").read_text())
    content["datasets"]["points"] |= {"features": {"x": ["x1", "x2"], "y": f"y{ESCAPE}"}, "label": f"y{ESCAPE}"}
    (project / "params.yaml").write_text(yaml.safe_dump(content))
    said = in_a_terminal(project, *command, root=root)
    assert said.strip() and not re.search(r"[^\x20-\x7e\xa0-\uffff\r\n]", said), ascii(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("dvc.lock", ("list",)),
        ("dvc.lock", ("doctor",)),
        ("dvc.lock", ("repair",)),
        ("dvc.yaml", ("init",)),
        ("engine.lock", ("lock", "--check")),
    ],
    ids=str,
)
def test_no_command_waits_for_a_fifo(repository, root, name, command):  # noqa: F811
    (repository / "dvc.yaml").write_text(DVC_YAML + "\n")
    fifo(repository / name)
    refused(call(repository, "tapeline", *command, root=root), "is a FIFO, a socket or a device, not a file")


@pytest.fixture
def armed(repository, tmp_path):  # noqa: F811
    """A repository whose own configuration names programs; each writes its name into the folder that is returned."""
    marks = tmp_path / ".git" / "marks"
    (marks / "hooks").mkdir(parents=True)

    def program(name, path=None):
        file = path or marks.parent / f"{name}.sh"
        file.write_text(f"#!/bin/sh\ntouch '{marks / name}'\nexit 1\n")
        file.chmod(0o755)
        return str(file)

    for hook in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "pre-push"):
        program("hook", marks / "hooks" / hook)
    asked = {"core.fsmonitor": "fsmonitor", "core.sshCommand": "ssh", "diff.external": "diff", "core.pager": "pager"}
    asked |= {"alias.status": "alias", "gpg.program": "gpg", "core.editor": "editor"}
    settings = {key: ("!" if name == "alias" else "") + program(name) for key, name in asked.items()}
    settings |= {
        "core.hooksPath": str(marks / "hooks"),
        "commit.gpgSign": "true",
        "remote.origin.url": "ssh://a@127.0.0.1:1/b",
    }
    for key, value in settings.items():
        subprocess.run(["git", "config", key, value], cwd=repository, check=True)
    return marks


def fired(marks):
    return sorted(path.name for path in marks.iterdir() if path.is_file())


def test_a_repository_names_programs_that_its_git_runs_and_ours_does_not(repository, armed):  # noqa: F811
    from tapeline.repository.git import Git
    from tapeline.runtime.errors import RunError

    git = Git(repository)
    git("add", "params.yaml")
    git("status", "--porcelain")
    git("ls-files", "--others", "--exclude-standard")
    parent = git(*WHO, "commit-tree", git("write-tree"), "-m", "one")
    git("update-ref", "refs/heads/main", git.commit("two", tree=git("write-tree"), parent=parent))
    with pytest.raises(RunError, match="git fetch"):
        git("fetch", "origin")
    assert fired(armed) == []
    subprocess.run(["git", "status"], cwd=repository, check=False, capture_output=True)
    assert "fsmonitor" in fired(armed), "the trap is none"


@pytest.mark.slow
def test_no_command_runs_what_a_repository_names(repository, armed, root):  # noqa: F811
    (repository / "dvc.yaml").write_text(DVC_YAML + "\n")
    for command in (("list",), ("doctor",), ("repair",), ("prune",), ("metrics",), ("registry", "show")):
        answer = call(repository, "tapeline", *command, root=root)
        assert "Traceback" not in answer.stderr and fired(armed) == [], command


@pytest.mark.slow
def test_prune_waits_for_no_fifo_in_the_cache(repository, root):  # noqa: F811
    (repository / "dvc.yaml").write_text(DVC_YAML + "\n")
    md5 = "d" * 32
    (repository / "dvc.lock").write_text(
        f"schema: '2.0'\nstages:\n  ingest@points:\n    cmd: x\n    outs:\n    - path: data/points\n      md5: {md5}.dir\n"
    )
    subprocess.run(["git", "add", "--all"], cwd=repository, check=True)
    subprocess.run(["git", *WHO, "commit", "--quiet", "--message", "one"], cwd=repository, check=True)
    listing = repository / ".dvc" / "cache" / "files" / "md5" / md5[:2] / f"{md5[2:]}.dir"
    listing.parent.mkdir(parents=True)
    fifo(listing)
    answer = call(repository, "tapeline", "prune", root=root)
    assert "Traceback" not in answer.stderr and answer.returncode in (0, 2), answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"- 1\n" * 25_000_000, "params.yaml, line 1000000: not YAML: more than 1,000,000 values"),
        (b"a: " + b"x" * 100_000_000, "params.yaml: a: no such setting; choose from datasets, pipelines"),
    ],
    ids=["values", "text"],
)
def test_settings_of_a_hundred_megabytes(project, root, content, said):  # noqa: F811
    (project / "params.yaml").write_bytes(content)
    refused(call(project, "tapeline", "list", root=root, timeout=200), said)


def test_a_log_is_told_nothing_by_a_file(project, root):  # noqa: F811
    """What ingest says goes into logs, which people read in a terminal, and in which a CI system looks for commands."""
    name = f"c{ESCAPE}\n::stop-commands::"
    (project / "points.csv").write_text(f'x,y,s\n1,a,train\n2,b,train\n3,"{name}",test\n')
    content = yaml.safe_load((project / "params.yaml").read_text())
    entry = content["datasets"]["points"]
    content["datasets"]["points"] = entry | {"features": {"x": "x", "y": "y"}, "label": "y", "split": "s"}
    (project / "params.yaml").write_text(yaml.safe_dump(content))
    answer = call(project, "tapeline", "ingest", "points", root=root)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.split("\n")
    assert lines.pop() == "" and all(line.startswith("points: ") and line.isprintable() for line in lines)
    [note] = [line for line in lines if "train lacks" in line]
    assert note.endswith(r"lacks: 1 (c\x1b]0;pwned\x07\x1b[2J\n::stop-commands::)")
