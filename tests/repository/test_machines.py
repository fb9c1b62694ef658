"""Which machine type this is, and what a record of another one says of it: real texts of other machines' cpuinfo."""

import json
import os
import subprocess
import sys

import pytest
from projects import write_params

from tapeline.repository.machines import compare, recorded_machine
from tapeline.runtime import environment
from tapeline.runtime.environment import deciding, machine, recordable

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 8
flags\t\t: fpu smep avx avx2 fma f16c avx512f avx512_bf16 amx_tile amx_int8 avx_vnni

processor\t: 1
stepping\t: 9
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd crc32 asimdhp sve i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd40
CPU revision\t: 1
"""


@pytest.fixture
def machine_of(tmp_path, monkeypatch):
    """Return the machine of a `/proc/cpuinfo`, or of a system without one."""

    def read(text):
        path = tmp_path / "cpuinfo"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(environment, "CPUINFO", path)
        return machine()

    return read


def test_an_x86_is_its_type_and_its_instruction_sets(machine_of):
    xeon = machine_of(XEON)
    assert [xeon[key] for key in ("vendor", "family", "model", "stepping")] == ["GenuineIntel", "6", "143", "8"]
    assert xeon["instructions"] == "amx_int8 amx_tile avx avx2 avx512_bf16 avx512f avx_vnni f16c fma"


def test_an_arm_too(machine_of):
    arm = machine_of(ARM)
    assert [arm[key] for key in ("vendor", "family", "model", "stepping")] == ["0x41", "8", "0xd40", "1"]
    assert arm["instructions"] == "asimd asimdhp bf16 i8mm sve"


def test_a_system_without_cpuinfo_says_what_it_can(machine_of):
    assert {"architecture", "threads", "python", "system"} <= machine_of(None).keys()
    assert "instructions" not in machine_of(None)


def test_the_threads_are_the_cores_that_may_be_used():
    one = "import os, tapeline.runtime.environment as e; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); print(e.machine()['threads'])"
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("no affinity on this system")
    assert subprocess.run([sys.executable, "-c", one], check=True, capture_output=True, text=True).stdout == "1\n"


def test_two_machines_of_one_name(machine_of):
    new = machine_of(XEON)
    old = machine_of(XEON.replace("143", "85").replace("amx_tile amx_int8 avx_vnni", "").replace("avx512_bf16", ""))
    assert str(compare(new, new)) == ""
    assert compare(old, new).differing == (
        "CPU Intel(R) Xeon(R) Processor (6/85/8), here Intel(R) Xeon(R) Processor (6/143/8)",
        "instruction sets: amx_int8 amx_tile avx512_bf16 avx_vnni only here",
    )
    assert compare(
        {**new, "threads": 64, "libc": "glibc 2.39"}, {**new, "threads": 2, "libc": "glibc 2.36"}
    ).differing == (
        "64 threads, here 2",
        "glibc 2.39, here glibc 2.36",
    )


def test_a_record_may_not_say_it_all(machine_of):
    new = machine_of(XEON)
    old = {key: new[key] for key in ("cpu", "architecture", "threads", "python", "system")}
    assert compare(old, new).differing == ()
    assert str(compare(old, new)).startswith("the record lacks its CPU type, instruction sets")


def committed(folder, recorded):
    """A project whose record is of another machine, committed."""
    write_params(folder, epochs=1, batch_size=1)
    (folder / "recipe.py").write_text("'''None.'''\n")
    path = folder / "runs/long/environment.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(recorded))
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)


@pytest.mark.parametrize(
    ("change", "said"), [({}, ""), ({"threads": 512}, "recorded on another machine type (512 threads, here ")]
)
def test_train_says_when_the_record_is_another_machine_s(tmp_path, root, change, said):
    committed(tmp_path, {"machine": {**machine(), **change}})
    command = [sys.executable, "-m", "tapeline", "train", "long"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 2, "its data are not here, which is found before TensorFlow is imported"
    assert answer.stdout.startswith(said) and bool(answer.stdout) == bool(said)


@pytest.mark.parametrize("recorded", ["this", {"machine": "this"}, {}])
def test_a_record_that_says_nothing_is_none(tmp_path, recorded):
    committed(tmp_path, recorded)
    assert recorded_machine(tmp_path, "long") is None
    assert recorded_machine(tmp_path, "none") is None


def test_a_record_with_portable_bits_differs_from_no_machine_that_has_them(machine_of):
    record = {**machine_of(XEON), "bits": "portable", "threads": 64, "libc": "glibc 2.41"}
    assert recordable("portable")["bits"] == "portable" and deciding("portable") == {"bits": "portable"}
    assert not compare(record, machine_of(XEON.replace("143", "85"))).differing
    assert compare({**record, "bits": "native"}, machine()).differing


def test_a_record_of_eager_mode_differs_by_the_cpu_and_not_by_its_cores(machine_of):
    here = machine_of(XEON)
    assert recordable("capped") == {**here, "bits": "capped"}
    assert deciding("capped") == {name: value for name, value in recordable("capped").items() if name != "threads"}
    assert str(compare({**here, "bits": "capped", "threads": 64}, here)) == ""
    assert compare({**here, "bits": "capped"}, machine_of(XEON.replace("143", "85"))).differing
    assert compare({**here, "threads": 64}, here).differing == (f"64 threads, here {here['threads']}",)


def test_a_machine_without_avx2_has_no_portable_bits(machine_of):
    record = {**machine_of(XEON), "bits": "portable"}
    here = machine_of(XEON.replace("avx2 ", ""))
    for bits in ("portable", "capped"):
        assert "bits" not in recordable(bits) and deciding(bits) == here
    assert compare(record, here).differing == ("instruction sets: avx2 only there",)
