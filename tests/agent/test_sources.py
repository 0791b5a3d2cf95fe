# SPDX-License-Identifier: Apache-2.0
"""What does the agent see of a whole machine, and does each source stand for itself?"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from registry.agent import asking_nvml
from registry.agent.kernel import KernelLog
from registry.agent.looking import Look
from registry.agent.memory import Memory
from registry.agent.running import ToolRunner
from registry.agent.sources import DIAG_RETRY_SECONDS, Diagnosis, Machine, has_nvidia
from registry.agent.who import read_instance_type, who_reports
from registry.collectors import boot as boots
from registry.collectors import nvml
from registry.collectors.boot import Boot
from registry.collectors.running import ToolFailed, ToolMissing
from registry.config import AgentSettings
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Notice
from tests.agent.machine import GPU_COUNT, FakeMachine
from tests.agent.scripted import FakeTimes
from tests.collectors.documents import xml_document


class Tools:
    """Tools that answer as they are told: bytes, or an error. What is not named is missing."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers = answers

    def __call__(self, command: Sequence[str]) -> bytes:
        answer = self.answers.get(command[0].replace("-", "_"), ToolMissing(f"there is no {command[0]} here"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A machine; without the library that speaks to NVML, whether or not this one has it."""
    monkeypatch.setattr(asking_nvml, "is_here", lambda: False)
    return FakeMachine(tmp_path)


def machine(fake: FakeMachine, tools: Tools, times: FakeTimes | None = None) -> Machine:
    boot = boots.collect(fake.root, tools)
    times = times or FakeTimes()
    kernel = KernelLog(fake.root, tools, boot, Memory(fake.root / "memory", boot.boot_id), times.now)
    made = Machine(fake.root, tools, kernel, times, lists=lambda: lists)
    lists: dict[str, tuple[DeviceEntry, ...]] = {}
    return made


def statuses(look: Look) -> dict[str, set[CheckStatus]]:
    found: dict[str, set[CheckStatus]] = {}
    for check in look.checks:
        found.setdefault(check.name, set()).add(check.status)
    return found


def put_on_bus(fake: FakeMachine) -> None:
    for at, gpu in enumerate(fake.gpus):
        place = fake.root / "sys/bus/pci/devices" / fake.slot(at)
        place.mkdir()
        (place / "vendor").write_text("0x10de\n")
        (place / "class").write_text("0x030200\n")
        assert gpu.slot


def test_a_whole_machine_is_listed_with_its_checks(fake: FakeMachine) -> None:
    put_on_bus(fake)
    seen = machine(fake, Tools(nvidia_smi=xml_document(fake.gpus))).look()

    assert {kind: len(entries) for kind, entries in seen.lists.items()} == {"gpu": GPU_COUNT, "efa": 0}
    assert seen.troubles == {}
    assert statuses(seen)["gpu.xid"] == statuses(seen)["gpu.ecc"] == {CheckStatus.PASS}
    assert "dcgm.health" not in statuses(seen)


def test_nvidia_smi_that_hangs_leaves_the_other_sources_their_word(fake: FakeMachine) -> None:
    put_on_bus(fake)
    fake.log_xid(0, 79)

    seen = machine(fake, Tools(nvidia_smi=ToolFailed("nvidia-smi hung"))).look()

    assert "gpu" not in seen.lists
    assert statuses(seen)["gpu.ecc"] == {CheckStatus.UNKNOWN}
    assert statuses(seen)["gpu.xid"] == {CheckStatus.FAIL}
    assert [failure.code for failure in seen.failures] == ["xid_79"]


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n",
            "nvidia-smi gave no document and said: Failed to initialize NVML: Driver/library version mismatch",
        ),
        (b"<html></html>", "not a document of nvidia-smi"),
        (b"\n", "the output is empty"),
    ],
)
def test_what_nvidia_smi_complains_of_is_quoted(fake: FakeMachine, printed: bytes, said: str) -> None:
    seen = machine(fake, Tools(nvidia_smi=printed)).look()

    assert said in seen.troubles["GPUs"]
    assert statuses(seen)["gpu.ecc"] == {CheckStatus.UNKNOWN}


def test_nvml_is_asked_before_nvidia_smi(fake: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Inventory("gpu", (DeviceEntry("gpu", "nvidia", slot="0000:99:00.0"),))
    monkeypatch.setattr(asking_nvml, "is_here", lambda: True)
    monkeypatch.setattr(asking_nvml, "ask", lambda _: found)

    seen = machine(fake, Tools(nvidia_smi=xml_document(fake.gpus))).look()

    assert seen.lists["gpu"] == found.entries


def test_gpus_on_the_bus_and_no_tool_is_unknown_and_not_none(fake: FakeMachine) -> None:
    put_on_bus(fake)

    seen = machine(fake, Tools()).look()

    assert "gpu" not in seen.lists
    assert statuses(seen)["gpu.ecc"] == {CheckStatus.UNKNOWN}
    assert "no nvidia-smi" in seen.troubles["GPUs"]


def test_a_machine_without_gpus_has_no_gpu_checks(fake: FakeMachine) -> None:
    seen = machine(fake, Tools()).look()

    assert not [name for name in statuses(seen) if name.startswith("gpu.")]
    assert seen.troubles == {}


def test_a_switch_of_nvidia_is_no_gpu(fake: FakeMachine) -> None:
    place = fake.root / "sys/bus/pci/devices/0000:05:00.0"
    place.mkdir()
    (place / "vendor").write_text("0x10de\n")
    (place / "class").write_text("0x068000\n")

    assert not has_nvidia(fake.root)


def test_the_same_document_again_is_no_look(fake: FakeMachine) -> None:
    """A driver that is stuck may leave the last good document in place."""
    times = FakeTimes()
    one = machine(fake, Tools(nvidia_smi=xml_document(fake.gpus)), times)
    assert "gpu" in one.look().lists
    times.seconds += 30

    seen = one.look()

    assert "gpu" not in seen.lists
    assert "the same look again" in seen.troubles["GPUs"]


def test_dcgm_that_is_here_and_does_not_answer_is_unknown(fake: FakeMachine) -> None:
    seen = machine(fake, Tools(nvidia_smi=xml_document(fake.gpus), dcgmi=ToolFailed("dcgmi hung"))).look()

    assert statuses(seen)["dcgm.health"] == {CheckStatus.UNKNOWN}


def test_the_diagnostic_runs_once_a_boot_beside_the_rounds(fake: FakeMachine) -> None:
    times, memory, gate = FakeTimes(), Memory(fake.root / "memory", "boot"), threading.Event()

    def dcgmi(command: Sequence[str]) -> bytes:
        assert list(command) == ["dcgmi", "diag", "-r", "2", "-j"]
        gate.wait(10)
        return b'{"DCGM Diagnostic": {"test_categories": []}}'

    beside = Diagnosis(fake.root, dcgmi, level=2, memory=memory, times=times, lists=dict)
    beside.start("run-1", is_free=True)
    beside.start("run-2", is_free=True)
    assert beside.take() is None
    gate.set()
    thread = beside._thread
    assert thread is not None
    thread.join(10)

    found = beside.take()
    assert found is not None
    assert found[0] == "run-1"
    assert {check.name for check in found[1].checks} == {"dcgm.diag"}
    assert beside.take() is None


def test_a_diagnostic_that_could_not_tell_is_tried_again_after_a_while(fake: FakeMachine) -> None:
    times, memory = FakeTimes(), Memory(fake.root / "memory", "boot")
    beside = Diagnosis(fake.root, Tools(), level=1, memory=memory, times=times, lists=dict)

    begun = []
    for _ in range(3):
        beside.start("run", is_free=True)
        begun.append(beside._thread is not None)
        if beside._thread is not None:
            beside._thread.join(10)
            found = beside.take()
            assert found is not None
            assert [check.status for check in found[1].checks] == [CheckStatus.UNKNOWN]
        times.seconds += DIAG_RETRY_SECONDS * 0.6

    assert begun == [True, False, True]
    assert not memory.is_diagnosed


def test_a_diagnostic_ends_with_the_agent(fake: FakeMachine, tmp_path: Path) -> None:
    stopping, times = threading.Event(), FakeTimes()
    (fake.tools / "dcgmi").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    (fake.tools / "dcgmi").chmod(0o755)
    run = ToolRunner(fake.environment(), limit=600, is_stopping=stopping.is_set)
    beside = Diagnosis(fake.root, run, level=3, memory=Memory(tmp_path / "m", "b"), times=times, lists=dict)
    beside.start("run", is_free=True)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)

    stopping.set()
    beside.end()

    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


@pytest.mark.parametrize(
    ("level", "is_free", "is_anytime", "begins"),
    [(1, False, False, True), (2, False, False, False), (2, True, False, True), (4, False, True, True)],
)
def test_a_diagnostic_that_wants_the_gpus_for_itself_begins_on_a_free_node_or_when_told(
    fake: FakeMachine, *, level: int, is_free: bool, is_anytime: bool, begins: bool
) -> None:
    memory, times = Memory(fake.root / "m", "b"), FakeTimes()
    beside = Diagnosis(fake.root, Tools(), level=level, memory=memory, times=times, lists=dict, is_anytime=is_anytime)

    beside.start("run", is_free=is_free)

    assert (beside._thread is not None) is begins
    beside.end()


def test_nobody_who_did_not_ask_gets_a_diagnostic(fake: FakeMachine) -> None:
    beside = Diagnosis(fake.root, Tools(), level=0, memory=Memory(fake.root / "m", "b"), times=FakeTimes(), lists=dict)

    beside.start("run", is_free=True)

    assert beside._thread is None


# --- NVML in a process of its own


def test_a_list_of_nvml_comes_through_as_it_was() -> None:
    entry = DeviceEntry("gpu", "nvidia", slot="0000:53:00.0", serial="01", readings={"index": 0}, slices=("MIG-1",))
    check = CheckResult("gpu.ecc", CheckStatus.WARN, "0000:53:00.0", message="aggregate")
    found = Inventory("gpu", (entry,), (check,), attached=2, warnings=(Notice("a", "b"),))

    assert asking_nvml.ask(lambda _: asking_nvml.answer(lambda: found).encode()) == found


def test_nvml_without_a_word_leaves_it_to_nvidia_smi() -> None:
    assert asking_nvml.ask(lambda _: asking_nvml.answer(lambda: None).encode()) is None


def test_answers_of_nvml_that_cannot_be_true_say_so() -> None:
    def look() -> Inventory:
        raise PartUnreadable("no such address")

    with pytest.raises(PartUnreadable, match="no such address"):
        asking_nvml.ask(lambda _: asking_nvml.answer(look).encode())


def test_nvml_that_hangs_is_named() -> None:
    def run(_: Sequence[str]) -> bytes:
        raise ToolFailed("python gave no whole answer within 20 s and was killed")

    with pytest.raises(ToolFailed, match="NVML was asked, and python gave no whole answer"):
        asking_nvml.ask(run)


def test_half_an_answer_of_nvml_is_none() -> None:
    with pytest.raises(ToolFailed, match="no whole answer"):
        asking_nvml.ask(lambda _: b'{"kind": "gp')


def test_the_process_that_asks_nvml_answers_as_the_collector_does(fake: FakeMachine) -> None:
    assert asking_nvml.ask(ToolRunner(fake.environment())) == nvml.collect()


# --- who reports


def test_what_was_set_stands_before_what_the_machine_says() -> None:
    settings = AgentSettings(node="node-a", provider_id="i-set", profile="p", zone="z")

    sender = who_reports(settings, Boot("boot", provider_id="i-read"))

    assert (sender.node, sender.provider_id, sender.profile, sender.zone) == ("node-a", "i-set", "p", "z")


def test_an_ec2_machine_says_its_type_and_another_says_none(fake: FakeMachine) -> None:
    folder = fake.root / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "product_name").write_text("p5.48xlarge\n")
    (folder / "sys_vendor").write_text("Amazon EC2\n")
    assert read_instance_type(fake.root) == "p5.48xlarge"

    (folder / "sys_vendor").write_text("Dell Inc.\n")

    assert read_instance_type(fake.root) is None


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({"node": "a b", "provider_id": "i", "profile": "p"}, "is no name of a node"),
        ({"node": "a", "profile": "p"}, "PRATIQUE_AGENT_PROVIDER_ID"),
        ({"node": "a", "provider_id": "i"}, "PRATIQUE_AGENT_PROFILE"),
    ],
)
def test_what_is_lacking_is_named(settings: dict[str, str], lacking: str, tmp_path: Path) -> None:
    with pytest.raises(PartUnreadable, match=lacking):
        who_reports(AgentSettings(root=tmp_path, **settings), Boot("boot"))
