"""Programs that start as forks of a process with its imports done: as if they had been started."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml
from repositories import Repository

from tapeline.orchestration.stages import forking
from tapeline.orchestration.stages.child import Child
from tapeline.orchestration.stages.forking import Forked, Nursery
from tapeline.repository import reproduction
from tapeline.repository.reproduction import Reproduction
from tapeline.runtime.processes import GUARDIAN

pytestmark = pytest.mark.slow  # each process that is forked imports TensorFlow

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, signal, sys, time
print("tensorflow" in sys.modules, "tapeline.runtime" in sys.modules, os.getcwd(), flush=True)
print(os.getsid(0), os.getppid(), flush=True)
what = sys.argv[1]
if what == "pass":
    os.write(int(sys.argv[2]), b"answer")
elif what == "wait":
    time.sleep(600)
elif what == "flow":
    from pathlib import Path
    from tapeline.orchestration.stages.child import Child, environment
    with Child.of_module("program", sys.argv[2:], cwd=Path(), env=os.environ) as child:
        for line in child.lines():
            if line:
                print(line, flush=True)
    print(type(child._process).__name__, child.session, child.returncode, flush=True)
else:
    sys.exit(int(what))
"""


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    """A process that is forked, and the environment that it serves, in which `program` is a module."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}
    made = Nursery()
    yield made, env
    made.close()


@pytest.fixture
def another(nursery):
    """One that a test may kill."""
    made = Nursery()
    yield made, nursery[1]
    made.close()


def run(started, folder, *arguments, **more):
    """Start the program; return the process and the file with its output."""
    made, env = started
    reader, writer = os.pipe()
    process = made.started("program", arguments, cwd=folder, env=env, output=writer, **more)
    os.close(writer)
    return process, os.fdopen(reader)


def test_imports_begin_before_they_are_needed(another, tmp_path):
    made, env = another
    made.prepare(env)
    first = made.pid
    assert first and psutil.Process(first).is_running()
    assert made.started("program", ["0"], cwd=tmp_path, env=env, output=1, ready=True) is None, "it would wait"
    process, output = run(another, tmp_path, "3")
    with output:
        assert output.read().startswith("True False")
    assert process.wait() == 3 and made.pid == first
    ready, output = run(another, tmp_path, "4", ready=True)
    with output:
        assert ready.wait() == 4, "now it need not wait"


def test_no_imports_begin_where_nothing_is_forked(monkeypatch, nursery):
    monkeypatch.setenv(forking.OFF, "0")
    made = Nursery()
    made.prepare(nursery[1])
    assert made.pid is None


def test_nothing_is_forked_where_the_system_is_not_linux(tmp_path):
    """`tapeline run` ended in a traceback there."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a file system")
    program = (
        "import os; from pathlib import Path; from tapeline.orchestration.stages.forking import Nursery; n = Nursery(); "
        "n.prepare(os.environ); print(n.started('program', [], cwd=Path(), env=os.environ, output=1), n.pid); n.close()"
    )
    mounted = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    told = subprocess.run([*mounted, sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("None None\n", "")


def test_it_is_a_child_with_its_imports_done(nursery, tmp_path):
    process, output = run(nursery, tmp_path, "7")
    with output:
        assert output.read().splitlines() == [f"True False {tmp_path}", f"{process.pid} {os.getpid()}"]
    assert process.wait() == 7


def test_a_file_that_is_passed_on(nursery, tmp_path):
    reader, writer = os.pipe()
    process, output = run(nursery, tmp_path, "pass", "{0}", pass_fds=[writer])
    os.close(writer)
    with output, os.fdopen(reader) as answer:
        assert answer.read() == "answer"
    assert process.wait() == 0


def test_a_signal_is_its_status_and_its_name_is_shown(nursery, tmp_path):
    process, output = run(nursery, tmp_path, "wait")
    with output:
        output.readline()
        assert " ".join(psutil.Process(process.pid).cmdline()) == f"{sys.executable} -P -m program wait"
        os.kill(process.pid, signal.SIGUSR1)
        assert process.wait() == -signal.SIGUSR1


def test_the_death_of_what_is_forked_costs_nothing(another, tmp_path):
    process, output = run(another, tmp_path, "wait")
    with output:
        output.readline()
        os.kill(another[0].pid, signal.SIGKILL)
        again, nothing = run(another, tmp_path, "7")
        nothing.close()
        assert again is None  # the caller starts it otherwise
        assert process.poll() is None
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_another_environment_is_not_served(nursery, tmp_path):
    process, output = run(nursery, tmp_path, "7")
    with output:
        assert output.read()
    assert process.wait() == 7
    other = {**nursery[1], "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    again, nothing = run((nursery[0], other), tmp_path, "7")
    nothing.close()
    assert again is None


def test_a_fork_that_is_a_flow_forks_in_turn(nursery, tmp_path):
    process, output = run(nursery, tmp_path, "flow", "7", nursery=True)
    with output:
        own, ids, inner, inner_ids, ended = output.read().splitlines()
    assert own == inner == f"True False {tmp_path}"
    assert ids.split() == [str(process.pid), str(os.getpid())]
    session, parent = inner_ids.split()
    assert parent == str(process.pid)
    assert ended.split() == ["Forked", session, "7"]
    assert process.wait() == 0


def test_nothing_outlives_a_killed_fork_that_is_a_flow(nursery, tmp_path):
    process, output = run(nursery, tmp_path, "flow", "wait", nursery=True)
    with output:
        for _ in range(4):
            output.readline()
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) == 2  # its own process that is forked, and what was forked
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    _gone, alive = psutil.wait_procs(below, timeout=60)
    assert not alive


def test_it_waits_for_children_where_whoever_started_it_does_not(another, tmp_path):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        another[0].prepare(another[1])
    finally:
        signal.signal(signal.SIGCHLD, before)
    process, output = run(another, tmp_path, "7")
    with output:
        assert output.read() and process.wait() == 7


@pytest.mark.parametrize("part", ["code", ""])
def test_a_path_that_means_another_folder_there_is_not_served(another, tmp_path, monkeypatch, part):
    """A worktree has its own code, and an empty part of PYTHONPATH is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worktree").mkdir()
    made, env = another
    env = {**env, "PYTHONPATH": os.pathsep.join([env["PYTHONPATH"], part])}
    process, nothing = run((made, env), tmp_path / "worktree", "7")
    nothing.close()
    assert process is made.pid is None, "no imports begin for it"
    process, output = run((made, env), tmp_path, "7")
    with output:
        assert output.read() and process.wait() == 7
    process, nothing = run((made, env), tmp_path / "worktree", "7")
    nothing.close()
    assert process is None


def test_a_fork_leaves_no_zombie(nursery, tmp_path):
    for arguments in (["flow", "7"], ["7"], ["flow", "wait"]):
        process, output = run(nursery, tmp_path, *arguments, nursery=True)
        with output:
            if "wait" in arguments:
                for _ in range(4):
                    output.readline()
                below = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                psutil.wait_procs(below, timeout=60)
            else:
                output.read()
        process.wait()
        time.sleep(0.5)
        left = [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]
        assert not left, arguments


def test_what_needs_no_import_begins_none(tmp_path):
    made = Nursery()
    process, nothing = run((made, dict(os.environ)), tmp_path, "7", ready=True)
    nothing.close()
    assert process is made.pid is None


def test_code_that_comes_first(nursery, tmp_path):
    (tmp_path / "program.py").write_text("import os\nprint('another', os.environ['PYTHONPATH'].split(os.pathsep)[0])\n")
    process, output = run(nursery, tmp_path, code=str(tmp_path))
    with output:
        assert output.read() == f"another {tmp_path}\n"
    assert process.wait() == 0


FLOW = """
import os, sys
from pathlib import Path
from tapeline.orchestration.stages.child import Child, environment

with Child.of_module("program", ["wait"], cwd=Path(), env=os.environ) as child:
    print(child.session, flush=True)
    list(child.lines())
"""


def test_nothing_outlives_a_killed_flow(nursery, tmp_path):
    flow = subprocess.Popen(
        [sys.executable, "-c", FLOW], cwd=tmp_path, env=nursery[1], stdout=subprocess.PIPE, text=True
    )
    with flow:
        child = psutil.Process(int(flow.stdout.readline()))
        assert child.ppid() == flow.pid
        others = psutil.Process(flow.pid).children()
        flow.kill()
        flow.wait()
    _gone, alive = psutil.wait_procs([child, *others], timeout=60)
    assert not alive


@pytest.mark.parametrize("kind", [Forked, subprocess.Popen])
def test_a_child_is_the_same_either_way(nursery, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(forking, "started", nursery[0].started)
    monkeypatch.setenv("TAPELINE_FORK", "1" if kind is Forked else "0")
    reader, writer = os.pipe()
    with Child.of_module("program", ["pass", "{0}"], cwd=tmp_path, env=nursery[1], pass_fds=[writer]) as child:
        os.close(writer)
        lines = [line.split() for line in child.lines() if line]
    with os.fdopen(reader) as answer:
        assert answer.read() == "answer"
    assert child.returncode == 0 and isinstance(child._process, kind)
    assert lines[0][2] == str(tmp_path) and int(lines[1][0]) == child.session


def test_a_killed_flow_takes_along_what_still_imports(nursery, tmp_path):
    (tmp_path / "dvc").mkdir()
    (tmp_path / "dvc" / "__init__.py").write_text("import time\ntime.sleep(600)\n")
    env = {**nursery[1], "PYTHONPATH": os.pathsep.join([str(tmp_path), nursery[1]["PYTHONPATH"]])}
    flow = subprocess.Popen([sys.executable, "-c", FLOW], cwd=tmp_path, env=env)
    while not (others := psutil.Process(flow.pid).children()) or forking.PROGRAM not in others[0].cmdline():
        assert flow.poll() is None
    flow.kill()
    flow.wait()
    _gone, alive = psutil.wait_procs(others, timeout=60)
    assert not alive


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "a folder")
    (made.folder / "recipe.py").write_text("other = 1\n")
    return made


@pytest.fixture
def reproduced(nursery, repository, monkeypatch):
    """Reproduce a stage, part of whose command is replaced, in a fork; return what it answers, its lines, the child."""
    monkeypatch.setattr(forking, "started", nursery[0].started)

    def reproduce(instead):
        text = repository.folder / "dvc.yaml"
        text.write_text(text.read_text().replace("mkdir -p runs &&", instead, 1))
        reader, writer = os.pipe()
        with Child.of_module(
            reproduction.__name__, ["train@one", "{0}"], cwd=repository.folder, env=nursery[1], pass_fds=[writer]
        ) as child:
            os.close(writer)
            lines = [line for line in child.lines() if line]
        assert isinstance(child._process, Forked)
        with os.fdopen(reader, "rb") as answer:
            return reproduction.read(answer.read()), lines, child

    return reproduce


def test_a_command_of_any_kind_runs_as_in_a_shell(reproduced, repository):
    found, lines, _ = reproduced("mkdir -p runs && echo $DVC_STAGE && pwd &&")
    assert (found, lines) == (Reproduction(word="ran"), ["train@one", str(repository.folder)])
    found, _, child = reproduced("mkdir -p runs &&")
    assert (found, child.returncode) == (Reproduction(word="unchanged"), 0)


def test_a_command_has_no_variable_that_an_import_has_set(reproduced, repository, nursery):
    found, _, _ = reproduced("mkdir -p runs && env > runs/variables &&")
    assert found == Reproduction(word="ran")
    names = {line.partition("=")[0] for line in (repository.folder / "runs" / "variables").read_text().splitlines()}
    own = {"DVC_ROOT", "DVC_STAGE", GUARDIAN, "PWD", "OLDPWD", "SHLVL", "_"}
    assert names - own <= nursery[1].keys()


def test_a_stage_has_the_variables_that_its_imports_set(repository):
    """The import is done already in a fork, and sets none again."""
    code = repository.folder / "src" / "tapeline"
    (code / "cli").mkdir(parents=True)
    (code / "__init__.py").touch()
    (code / "cli" / "__init__.py").touch()
    (code / "cli" / "main.py").touch()
    (code / "__main__.py").write_text("import os, tensorflow\nprint('set:', os.environ.get('TF2_BEHAVIOR'))\n")
    repository.git("add", "src")
    for fork in ("0", "1"):
        assert "set: 1" in reproduced_by_a_flow(repository, fork).splitlines()


def test_a_command_that_is_not_tapeline_s_dies_of_a_closed_pipe(reproduced, repository):
    found, _, _ = reproduced("mkdir -p runs && grep SigIgn /proc/self/status > runs/ignored &&")
    assert found == Reproduction(word="ran")
    ignored = int((repository.folder / "runs" / "ignored").read_text().split()[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -9 $$", -9), ("sh -c 'kill -9 $$'; exit", 137)])
def test_the_exit_status_of_a_stage(reproduced, command, status):
    found, _, child = reproduced(f"{command} &&")
    assert (found.word, found.status, child.returncode) == ("failed", status, 1)


REPRODUCE = """
import os, sys
from pathlib import Path
from tapeline.orchestration.stages.child import Child, environment
from tapeline.repository import reproduction

reader, writer = os.pipe()
arguments = ["train@one", "{0}"]
with Child.of_module(reproduction.__name__, arguments, cwd=Path(), env=environment(), pass_fds=[writer]) as child:
    os.close(writer)
    print(*[line for line in child.lines() if line], sep="\\n")
print(reproduction.read(os.fdopen(reader, "rb").read()))
"""


def reproduced_by_a_flow(repository, fork, *paths, **variables):
    """Have a flow of its own reproduce a stage that calls Tapeline; return what it prints."""
    command = yaml.safe_load((ROOT / "dvc.yaml").read_text())["vars"][0]["tapeline"]
    text = repository.folder / "dvc.yaml"
    text.write_text(re.sub(r"cmd: \"mkdir -p runs.*", f"cmd: {command} train one", text.read_text()))
    path = os.pathsep.join([*map(str, paths), str(ROOT / "src")])
    flow = subprocess.run(
        [sys.executable, "-c", REPRODUCE],
        cwd=repository.folder,
        env={**os.environ, "TAPELINE_FORK": fork, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return flow.stdout


def test_a_stage_starts_no_interpreter(repository, tmp_path):
    """Every interpreter that starts leaves a line; the stage's answer is the same with and without its own."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nopen(os.environ['STARTS'], 'a').write(' '.join(sys.orig_argv[1:]).strip() + '\\n')\n"
    )
    said, starts = {}, {}
    for fork in ("0", "1"):
        log = tmp_path / f"starts-{fork}"
        said[fork] = reproduced_by_a_flow(repository, fork, tmp_path, STARTS=str(log))
        starts[fork] = log.read_text()
    assert said["0"] == said["1"] and "status=2" in said["1"]
    assert starts["0"].count("tapeline train one") == 1
    assert "tapeline train one" not in starts["1"] and starts["1"].count("tapeline.runtime.nursery") == 1


def test_code_of_the_checkout_that_fails_when_it_is_imported_ahead_fails_as_the_command(repository):
    code = repository.folder / "src" / "tapeline"
    (code / "cli").mkdir(parents=True)
    (code / "__init__.py").touch()
    (code / "__main__.py").write_text("import tapeline.cli.main\n")
    (code / "cli" / "main.py").write_text('raise ImportError("the checkout\'s code is broken")\n')
    repository.git("add", "src")
    said = {fork: reproduced_by_a_flow(repository, fork).splitlines() for fork in ("0", "1")}
    for lines in said.values():
        assert lines[-2:] == ["ImportError: the checkout's code is broken", said["0"][-1]]
    assert "word='failed', status=1" in said["0"][-1]
