"""Promotion and rollback: the tag, the serving folder, what plain tools say, and two at once."""

import json
import shutil
import subprocess
from types import SimpleNamespace

import clones
import pytest
from registries import TAPELINE

from tapeline.config.registry import RegistrySettings
from tapeline.registry import promote, rollback
from tapeline.registry.gate.verdict import Verdict
from tapeline.registry.repository import Tag
from tapeline.registry.tags import state
from tapeline.registry.tags.names import Artifact
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError


def live(registry, stage="prod"):
    """Return the live version as each tool has it; all must be the same."""
    ours = {
        row["version"] for row in json.loads(registry("registry", "show", "--json").stdout) if stage in row["stages"]
    }
    gto = json.loads(registry.gto("show", "--json"))["one"]["stage"][stage]
    assert ours == {gto}
    shutil.rmtree(registry.folder.parent / "got", ignore_errors=True)
    registry.dvc("artifacts", "get", ".", "one", "--stage", stage, "--out", "../got")
    got = json.loads((registry.folder.parent / "got" / "model.json").read_text())
    assert f"v1.0.{got['metrics']['loss'] - 1:.0f}" == gto
    if stage == "prod":
        numbers = sorted(
            int(path.name) for path in (registry.folder / "serving" / "one").iterdir() if path.name.isdigit()
        )
        index = json.loads((registry.folder / "serving" / "one" / str(numbers[-1]) / "version.json").read_text())
        assert index["version"] == gto
    return gto


def events(registry):
    """Return history as both tools have it, the latest first; both must be the same."""
    ours = json.loads(registry("registry", "history", "one", "--json").stdout)
    gto = json.loads(registry.gto("history", "one", "--json"))
    assert [(row["version"], row["stage"], row["tag"]) for row in ours] == [
        (event["version"], event["stage"] or "", event["ref"]) for event in gto
    ]
    return [(row["event"], row["version"]) for row in ours]


STAGES = {
    "dev": {"previous": True},
    "staging": {"previous": True, "approval": True},
    "prod": {"approval": True},
}


def told(*events):
    """Return what tags say, a second apart: names, and for an assignment the commit of its version."""
    found = []
    for time, name in enumerate(events):
        name, _, commit = name.partition(" ")
        found.append(Tag(name, commit or name.partition("@")[2], time, "Ann", "", "x"))
    return state.read(found, Artifact("one", ""))


@pytest.mark.parametrize(
    ("events", "stage", "approved_by", "said"),
    [
        ([], "dev", None, ""),  # before the first stage is none
        ([], "staging", "Zoë", "one@v1.0.0 was never in dev, which staging requires: promote it there first"),
        (["one#prod#1 v1.0.0"], "staging", "Zoë", "one@v1.0.0 was never in dev, which staging requires"),
        (["one#dev#1 v1.0.1"], "staging", "Zoë", "one@v1.0.0 was never in dev, which staging requires"),
        (["one#dev#1 v1.0.0", "one#dev#2 v1.0.1"], "staging", "Zoë", ""),
        (["one#dev#1 v1.0.0"], "staging", None, "staging requires a person's approval: give --approved-by NAME"),
        ([], "prod", "Zoë", ""),
        ([], "prod", "", "prod requires a person's approval: give --approved-by NAME"),
        (["one#prod#1 v1.0.1"], "prod", "Zoë", ""),
        (["one#prod#1 v1.0.0"], "prod", None, "live"),
    ],
)
def test_what_no_verdict_could_allow(tmp_path, events, stage, approved_by, said):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    found = told("one@v1.0.0", "one@v1.0.1", *events)
    registry = SimpleNamespace(
        settings=RegistrySettings(stages=STAGES),
        stage=lambda name: name,
        state=lambda name: found,
        repository=SimpleNamespace(check_identity=lambda: None, git=Git(tmp_path)),
        check_usable=lambda version: None,
        own=lambda rule, stage: None,
        authority=None,
    )

    def check():
        return promote.check(registry, found.versions["v1.0.0"], stage, approved_by=approved_by)

    if said in ("", "live"):
        assert check() == (found.live("prod") if said else None)
    else:
        with pytest.raises(InputError, match=f"^{said}"):
            check()


@pytest.mark.parametrize(
    ("champion", "events", "said"),
    [
        ("v1.0.1", ["one#prod#1 v1.0.2"], "was compared with v1.0.1, but v1.0.2 is in prod now, by Ann (one#prod#1)"),
        ("v1.0.1", [], "was compared with v1.0.1, but prod is empty"),
        (
            None,
            ["one#prod#1 v1.0.1"],
            "was judged while prod was empty, but v1.0.1 is in prod now, by Ann (one#prod#1)",
        ),
    ],
)
def test_a_verdict_that_was_overtaken(champion, events, said):
    found = told("one@v1.0.0", "one@v1.0.1", "one@v1.0.2", *events)
    verdict = Verdict("one", "v1.0.0", "prod", champion, {}, (), {})
    given = promote._overtaken(found.versions["v1.0.0"], "prod", verdict, found.live("prod"))
    assert given == f"one@v1.0.0 {said}: run again to compare it with that"


def test_a_rollback_that_was_cut_is_known_by_its_tag(tmp_path):
    note = tmp_path / "note.json"
    whole = {"from": "v1.0.1", "to": "v1.0.0", "tag": "one#prod#3"}

    def cut(content, tag="one#prod#3", action="rollback"):
        note.write_text(content if isinstance(content, str) else json.dumps(content))
        live = SimpleNamespace(version="v1.0.0", tag=SimpleNamespace(name=tag), record={"action": action})
        return rollback._cut(note, live)

    nothing = ("v1.0.0", "")
    assert cut(whole) == ("v1.0.1", "v1.0.0")
    assert cut(whole, tag="one#prod#2") == cut(whole, action="promote") == cut(whole, action=None) == nothing
    assert cut("{") == cut("[]") == cut("7") == cut({"from": "v1.0.1", "to": "v1.0.0"}) == nothing
    note.unlink()
    live = SimpleNamespace(version="v1.0.0", tag=SimpleNamespace(name="one#prod#3"), record={})
    assert rollback._cut(note, live) == nothing


def test_a_step_back_says_which_tags_it_goes_over(capsys):
    def passed(**tags):
        tags = [
            SimpleNamespace(tag=SimpleNamespace(name=name.replace("_", "#")), version=version)
            for name, version in tags.items()
        ]
        found = SimpleNamespace(quarantined=tags, revoked_since=lambda number, stage: [])
        rollback._say_passed(found, "prod", "v1.0.0")
        return capsys.readouterr().err

    assert passed() == passed(one_dev_1=None) == ""
    assert passed(one_prod_1=None) == "tapeline: skipping one#prod#1, to v1.0.0\n"
    said = passed(one_prod_1=None, one_dev_2=None, v1="v1.0.1")
    assert said == "tapeline: skipping one#prod#1, v1, to v1.0.0\n"


@pytest.mark.slow
def test_promoted_replaced_rolled_back(registry):
    assert live(registry) == "v1.0.1"
    registry("registry", "promote", "one", "prod")
    assert live(registry) == "v1.0.2"
    assert registry("registry", "rollback", "one", "prod").stdout == "one in prod: v1.0.2 → v1.0.1 (one#prod#4)\n"
    assert live(registry) == "v1.0.1"
    registry("registry", "rollback", "one", "prod")
    assert live(registry) == "v1.0.0"
    registry("registry", "rollback", "one", "prod", "--to", "1.0.2")
    assert live(registry) == "v1.0.2"
    assert events(registry)[:6] == [
        ("rollback", "v1.0.2"),
        ("rollback", "v1.0.0"),
        ("rollback", "v1.0.1"),
        ("promote", "v1.0.2"),
        ("promote", "v1.0.1"),
        ("promote", "v1.0.0"),
    ]
    assert registry.git("status", "--porcelain") == ""


def test_the_serving_folder_has_the_layout_of_tensorflow_serving(registry):
    folder = registry.folder / "serving" / "one"
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]
    for path in folder.iterdir():
        assert (path / "saved_model.pb").read_text() == "graph"
    assert (folder / "2" / "variables" / "variables.data").read_text() == "2" * 200_000
    registry("registry", "promote", "one", "prod")
    assert sorted(path.name for path in folder.iterdir()) == ["2", "3"]  # one stays for who is reading it


def test_a_stage_that_is_not_served_touches_no_folder(registry):
    before = sorted((registry.folder / "serving").rglob("*"))
    registry("registry", "promote", "one", "staging")
    assert live(registry, "staging") == "v1.0.2"
    assert sorted((registry.folder / "serving").rglob("*")) == before


def test_promoting_what_is_live_changes_nothing(registry):
    before = registry.state()
    said = registry("registry", "promote", "one@v1.0.1", "prod").stdout
    assert said == "one@v1.0.1 is already live in prod (one#prod#2)\n"
    assert registry.state() == before


@pytest.mark.first(4)
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: shutil.rmtree(folder / "2"),
        lambda folder: (folder / "2" / "saved_model.pb").write_text("grapf"),
        lambda folder: (folder / "2" / "variables" / "variables.data").unlink(),
        lambda folder: (folder / "2" / "more").write_text("x"),
        lambda folder: (folder / "2" / "version.json").write_text("{"),
        lambda folder: (folder / "2" / "version.json").write_text('{"files": {"/etc/x": "1"}}'),
        lambda folder: (folder / "2" / "version.json").write_text('{"files": 7}'),
        lambda folder: (folder / "2").rename(folder / "9"),
        lambda folder: shutil.copytree(folder / "1", folder / "3"),
        lambda folder: (folder / ".3.partial").mkdir(),
    ],
)
def test_sync_brings_the_folder_in_line(registry, damage):
    folder = registry.folder / "serving" / "one"
    damage(folder)
    registry("registry", "sync")
    top = folder / str(max(int(path.name) for path in folder.iterdir()))
    assert json.loads((top / "version.json").read_text())["version"] == "v1.0.1"
    assert (top / "saved_model.pb").read_text() == "graph"
    assert (top / "variables" / "variables.data").read_text() == "2" * 200_000
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_a_folder_that_is_gone_is_made_by_promoting_what_is_live(registry):
    """Neither a command that only shows nor a promotion to another stage makes one: not every machine serves."""
    shutil.rmtree(registry.folder / "serving" / "one")
    registry("registry", "show")
    registry("registry", "promote", "one@v1.0.2", "staging")
    registry("registry", "promote", "one@v1.0.2", "staging")
    assert not (registry.folder / "serving" / "one").exists()
    registry("registry", "promote", "one@v1.0.1", "prod")
    assert live(registry) == "v1.0.1"


@pytest.mark.first(1)
@pytest.mark.parametrize("command", [("sync", "one"), ("promote", "one@v1.0.1", "prod")])
def test_whichever_command_it_is(registry, command):
    shutil.rmtree(registry.folder / "serving" / "one" / "2")
    registry("registry", *command)
    assert live(registry) == "v1.0.1"


def test_what_is_served_stays_when_a_stage_is_appended(registry):
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text() + "    canary: {gate: false, check: false}\n")
    before = registry.state()
    assert "serving/one/2/version.json" in before
    assert registry("registry", "show").stderr == ""
    registry("registry", "sync")
    assert registry.state() == before


def test_what_was_taken_back_is_served_no_more(registry):
    for version in ("v1.0.0", "v1.0.1"):
        registry.gto("deprecate", "one", version, "prod")
    assert registry("registry", "sync").stdout == "one: nothing is live, so no version is served in prod\n"
    assert not list((registry.folder / "serving" / "one").iterdir())


def test_a_folder_follows_a_tag_that_plain_gto_made(registry):
    registry.gto("assign", "one", "--version", "v1.0.2", "--stage", "prod")
    said = registry("registry", "sync").stdout
    assert said == "one: serving/one/3 is now v1.0.2 (one#prod#3, without a verdict, since plain GTO made the tag)\n"
    assert live(registry) == "v1.0.2"


@pytest.mark.first(1)
@pytest.mark.parametrize("tag", ["one#prod#3", "one#staging#7", "one@v1.0.9"])
def test_a_lightweight_tag_is_counted_and_says_nothing(registry, tag):
    registry.git("tag", tag)
    number = {"one#prod#3": 4, "one#staging#7": 8, "one@v1.0.9": 3}[tag]
    said = registry("registry", "promote", "one@v1.0.2", "prod").stdout.splitlines()[-1]
    assert said == f"one@v1.0.2 is live in prod (one#prod#{number})"
    said = registry("registry", "rollback", "one", "prod").stdout
    assert said == f"one in prod: v1.0.2 → v1.0.1 (one#prod#{number + 1})\n"


def test_a_rollback_takes_no_tensorflow(registry):
    program = (
        "import sys; from tapeline.cli.main import main; status = main(['registry', 'rollback', 'one', 'prod']);"
        "assert not {'tensorflow', 'keras'} & sys.modules.keys(); sys.exit(status)"
    )
    environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src")}
    subprocess.run([TAPELINE[0], "-c", program], cwd=registry.folder, env=environment, check=True, timeout=60)
    assert live(registry) == "v1.0.0"


@pytest.mark.slow
def test_a_rollback_that_failed_is_not_taken_for_one_that_was_killed(registry):
    """What it goes back to is lost; when that was promoted again, a step back is a step back."""
    shutil.rmtree(registry.folder / "serving" / "one" / "1")
    cache, elsewhere = registry.folder / ".dvc" / "cache", registry.folder.parent / "elsewhere"
    remote = registry.folder.parent / "remote"
    for path in (cache, remote):
        path.rename(elsewhere.with_suffix(f".{path.name}"))
    registry("registry", "rollback", "one", "prod", status=2)
    for path in (cache, remote):
        shutil.rmtree(path, ignore_errors=True)
        elsewhere.with_suffix(f".{path.name}").rename(path)
    registry("registry", "promote", "one@v1.0.0", "prod")
    assert registry("registry", "rollback", "one", "prod").stdout == "one in prod: v1.0.0 → v1.0.1 (one#prod#4)\n"
    assert live(registry) == "v1.0.1"


def test_each_model_and_stage_has_its_own_note_of_a_rollback(tmp_path):
    assert rollback.note_of(tmp_path, "one-v2", "prod") != rollback.note_of(tmp_path, "one", "v2-prod")


def test_a_promotion_that_has_the_tag_of_a_killed_rollback_is_none(registry):
    """The rollback was killed between its note and its tag #3, which a promotion then made."""
    note = rollback.note_of(registry.folder / ".tapeline" / "registry", "one", "prod")
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"from": "v1.0.1", "to": "v1.0.0", "tag": "one#prod#3"}))
    registry("registry", "promote", "one@v1.0.0", "prod")
    assert registry("registry", "rollback", "one", "prod").stdout == "one in prod: v1.0.0 → v1.0.1 (one#prod#4)\n"


def test_one_goes_back_from_a_version_whose_bytes_are_lost(registry):
    """The tags came from elsewhere, and the version that they have live is nowhere: its folder was never made here."""
    shutil.rmtree(registry.folder / "serving" / "one" / "2")
    shutil.rmtree(registry.folder / ".dvc" / "cache")
    shutil.rmtree(registry.folder.parent / "remote")
    assert registry("registry", "rollback", "one", "prod").stdout == "one in prod: v1.0.1 → v1.0.0 (one#prod#3)\n"
    assert [path.name for path in (registry.folder / "serving" / "one").iterdir()] == ["1"]


@pytest.mark.slow
def test_two_promotions_at_once(registry):
    """Both were judged against the version that was live before; one wins, and the other says why not."""
    registry.versions(4)
    program = (
        "import sys, pathlib, time; from tapeline.config.project import Project; from tapeline.config.params import "
        "Params\n"
        "from tapeline.registry.tags import names; from tapeline.registry.registry import Registry\n"
        "from tapeline.registry.assess import assess; from tapeline.registry.promote import promote\n"
        "from tapeline.runtime.errors import TapelineError\n"
        "project = Project.find(); registry = Registry.open(project, Params.load(project.folder))\n"
        "version = registry.version(names.parse(sys.argv[1])); verdict = assess(registry, version, 'prod')\n"
        "print('judged', flush=True); sys.stdin.read()\n"
        "try: promote(registry, version, 'prod', verdict); print('won')\n"
        "except TapelineError as error: print(error)\n"
    )
    environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src")}
    children = [
        subprocess.Popen(
            [TAPELINE[0], "-c", program, f"one@{version}"],
            cwd=registry.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for version in ("v1.0.2", "v1.0.3")
    ]
    for child in children:
        assert child.stdout.readline() == "judged\n"
    for child in children:
        child.stdin.close()
    said = [child.stdout.read() for child in children]
    assert [child.wait(60) for child in children] == [0, 0]
    for child in children:
        child.stdout.close()
    assert sorted(line == "won\n" for line in said) == [False, True]
    winner, loser = ("v1.0.2", "v1.0.3") if said[0] == "won\n" else ("v1.0.3", "v1.0.2")
    lost = next(line for line in said if line != "won\n")
    assert lost == (
        f"one@{loser} was compared with v1.0.1, but {winner} is in prod now, by Ann (one#prod#3): "
        "run again to compare it with that\n"
    )
    assert live(registry) == winner


@pytest.mark.slow
def test_a_stage_that_asks_for_the_one_before_and_for_a_person(registry):
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("prod: {gate", "prod: {previous: true, approval: true, gate"))
    before = registry.state()
    assert "was never in staging" in registry("registry", "promote", "one", "prod", status=2).stderr
    registry("registry", "promote", "one", "staging")
    assert "give --approved-by NAME" in registry("registry", "promote", "one", "prod", status=2).stderr
    registry("registry", "promote", "one", "prod", "--approved-by", "Zoë")
    assert live(registry) == "v1.0.2"
    assert "approved by Zoë" in registry("registry", "lineage", "one").stdout
    assert before["head"] == registry.state()["head"]


@pytest.mark.slow
def test_a_worktree_serves_from_the_main_checkout(registry):
    """What a scheduled run promotes in a worktree of its own is live where everybody looks."""
    other = registry.folder.parent / "other"
    registry.git("worktree", "add", "--quiet", "-b", "other", str(other))
    inside = type(registry)(other)
    inside.dvc("cache", "dir", "--local", str(registry.folder / ".dvc" / "cache"))
    inside("registry", "promote", "one", "prod")
    assert not (other / "serving").exists()
    assert live(registry) == "v1.0.2"


def mounted(registry, options, *command):
    """Call a command where `serving/` is a tmpfs, in a mount namespace of its own."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    program = f'mount -t tmpfs -o {options} none serving && exec "$@"'
    environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src")}
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", program, "sh", *command],
        cwd=registry.folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ("ro", 2, "tapeline: not writable or readable ("),
        ("size=40k", 1, "tapeline: "),
    ],
)
def test_a_serving_folder_that_takes_nothing(registry, options, status, said):
    before = registry.state()
    answer = mounted(registry, options, *TAPELINE, "registry", "promote", "one", "prod")
    assert answer.returncode == status, answer.stderr
    assert answer.stderr.startswith(said) and answer.stderr.count("\n") == 1, answer.stderr
    assert registry.state() == before


def test_an_output_that_takes_nothing(registry):
    answer = mounted(registry, "ro", "sh", "-c", f"{' '.join(TAPELINE)} registry history one > /dev/full")
    assert (answer.returncode, answer.stderr) == (1, "tapeline: no space left on the disk: free some and run again\n")
