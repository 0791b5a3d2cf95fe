# SPDX-License-Identifier: Apache-2.0
"""Does the whole of it hold together? One node from its first boot to its replacement, with nothing stood in for.

The server, the agent and the boot script are the real ones; of the machine there are the files and tools they read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agent.machine import GPU_COUNT, NVIDIA_SMI, PROFILE, FakeMachine
from tests.collectors.adapters import Efa, write_sysfs
from tests.collectors.dcgm import health
from tests.deploy.conftest import SCRIPT, Ran
from tests.live.agents import PATIENCE_SECONDS, PERIOD_SECONDS, RunningAgent, agent_on, holds_on
from tests.live.machines import walk
from tests.live.server import Caller, LiveServer

AWAY_SECONDS = float(os.environ.get("PRATIQUE_TEST_AWAY_SECONDS", 12 * PERIOD_SECONDS))
"""How long the server stays away: twelve rounds of the agent. Set it to 300 to see minutes of it."""

MOST_ROUNDS = 2
"""From a line of the log to the decision: the round that had just read the log when the line came, and the next."""

# With a tally of its looks, so that rounds can be counted.
COUNTED = NVIDIA_SMI.replace("\n", "\necho look >>'{tally}'\n", 1)
# What `dmesg` prints of the records that /dev/kmsg gives.
DMESG = r"""#!/bin/sh
sed 's/^[0-9]*,[0-9]*,0,-;/[    0.000000] /; s/^[0-9]*,[0-9]*,\([0-9]*\)\([0-9]\{6\}\),-;/[\1.\2] /' 'LOG'
"""
# The agent's hook: after how many looks which decision came.
HOOK = '#!/bin/sh\necho "$DECISION_EXIT_CODE $(wc -l <"{tally}")" >>"{changes}"\n'

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the boot script needs curl")


class Instance(FakeMachine):
    """A machine with an EFA, DCGM, `dmesg`, and a tally of the agent's rounds."""

    def __init__(self, folder: Path, *, efa: int) -> None:
        super().__init__(folder)
        shutil.rmtree(self.root / "sys")
        write_sysfs(self.root, Efa(efa))
        for at in range(GPU_COUNT):
            card = self.root / "sys/bus/pci/devices" / self.slot(at)
            card.mkdir()
            (card / "vendor").write_text("0x10de\n")
            (card / "class").write_text("0x030200\n")
        self.tally, self.changes = folder / "tally", folder / "changes"
        self.tally.touch()
        self.changes.touch()
        self.write_tool("nvidia-smi", COUNTED.replace("{tally}", str(self.tally)))
        (self.tools / "dcgmi.json").write_bytes(health("Healthy"))
        self.write_tool("dcgmi", f"#!/bin/sh\ncat '{self.tools}/dcgmi.json'\n")
        self.write_tool("dmesg", DMESG.replace("LOG", str(self.root / "dev/kmsg")))
        self.write_tool("on-change", HOOK.format(tally=self.tally, changes=self.changes))

    def looks(self) -> int:
        """How often anybody has asked nvidia-smi."""
        return len(self.tally.read_text().splitlines())

    def carry(self, at: int, gpu: Any) -> None:
        """Put a GPU of another machine into a slot."""
        self.gpus[at] = replace(gpu, slot=self.gpus[at].slot)
        self.show(self.gpus)

    def bootstrap(self, node: Caller, url: str, *more: str) -> Ran:
        """Run the boot script, as whoever brings the node up does."""
        arguments = [
            *("sh", str(SCRIPT), "--url", url, "--root", str(self.root), "--provider-id", self.provider_id),
            *("--profile", PROFILE, "--gap", "0", *more, node.name),
        ]
        environment = self.environment(PRATIQUE_TOKEN=node.token)
        done = subprocess.run(
            arguments,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def held_serials(running: RunningAgent) -> list[str]:
    reasons = running.decision()["decision"]["reasons"]
    return [reason["device"]["serial"] for reason in reasons if reason["code"] == "device_quarantined"]


def told(operator: Caller, node: str) -> dict[tuple[str, str | None], int]:
    """What is on record of a node's faults: how often each code on each GPU."""
    found: Counter[tuple[str, str | None]] = Counter()
    for one in walk(operator, "/v1/failures", node=node):
        found[one["code"], one["serial"]] += one["count"]
    return dict(found)


def test_a_node_from_its_first_boot_to_its_replacement(
    server: LiveServer, operator: Caller, auditor: Caller, tmp_path: Path
) -> None:
    machine = Instance(tmp_path / "first", efa=3)
    name = f"story-{machine.number}"
    node = server.caller("node", name)

    boots(machine, node, operator)
    with agent_on(server, machine, name, "--on-change", str(machine.tools / "on-change")) as running:
        is_let_in(machine, running)
        falls_off_the_bus(machine, running, operator)
        does_not_answer(machine, running, operator)
        is_alone(server, machine, running, operator, auditor)
    comes_back_under_another_name(server, machine, operator, tmp_path / "second")


def boots(machine: Instance, node: Caller, operator: Caller) -> None:
    """No passes yet: refused. What the script told is the first one."""
    assert operator.ask("GET", f"/v1/nodes/{node.name}").status_code == 404

    ran = machine.bootstrap(node, node.server.url)

    assert (ran.code, ran.out.split()[1:4]) == (11, ["hold", "11", "passes_insufficient"]), ran
    shown = operator.get(f"/v1/nodes/{node.name}")
    assert (shown["passes"]["have"], shown["passes"]["need"]) == (1, 2)
    assert {one["kind"] for one in shown["devices"]} == {"gpu", "efa"}
    assert {"dcgm.health", "efa.link", "gpu.xid"} <= {one["name"] for one in shown["checks"]}


def is_let_in(machine: Instance, running: RunningAgent) -> None:
    """The agent's first look is the second pass."""
    running.until(running.admitted)

    ran = machine.bootstrap(running.node, running.url)
    assert (ran.code, ran.out) == (0, f"{running.node.name}: admit 0 - -\n"), ran


def falls_off_the_bus(machine: Instance, running: RunningAgent, operator: Caller) -> None:
    machine.log_xid(2, 79)
    before = machine.looks()
    running.until(lambda: running.decision()["exit_code"] == 10)

    running.until(lambda: "10 " in machine.changes.read_text())
    (looks,) = [line.split()[1] for line in machine.changes.read_text().splitlines() if line.startswith("10 ")]
    assert int(looks) - before <= MOST_ROUNDS
    assert held_serials(running) == [machine.gpus[2].serial]
    assert told(operator, running.node.name) == {("xid_79", machine.gpus[2].serial): 1}
    ran = machine.bootstrap(running.node, running.url)
    assert (ran.code, "device_quarantined" in ran.out) == (10, True), ran
    assert told(operator, running.node.name) == {("xid_79", machine.gpus[2].serial): 1}


def does_not_answer(machine: Instance, running: RunningAgent, operator: Caller) -> None:
    """What cannot be asked is unknown, and nobody is missing."""
    machine.hang()
    running.until(lambda: "check_unknown" in running.decision()["codes"])

    assert "device_missing" not in running.decision()["codes"]
    shown = operator.get(f"/v1/nodes/{running.node.name}")
    states = {one["serial"]: one["state"] for one in shown["devices"] if one["kind"] == "gpu"}
    held = machine.gpus[2].serial
    assert states == {gpu.serial: "quarantined" if gpu.serial == held else "in_service" for gpu in machine.gpus}
    machine.recover()
    running.until(lambda: "check_unknown" not in running.decision()["codes"])


def is_alone(server: LiveServer, machine: Instance, running: RunningAgent, operator: Caller, auditor: Caller) -> None:
    """The server dies and stays away, while one GPU fails once and another goes on failing."""
    before = walk(auditor, f"/v1/nodes/{running.node.name}/history")
    server.kill()
    until = time.monotonic() + AWAY_SECONDS
    machine.log_xid(1, 63, "Row remapper: new row marked for remapping")
    for waiting in (2, 4, 6):
        machine.log_xid(3, 94, "Contained ECC error")
        running.until(lambda least=waiting: running.spooled() >= least)  # type: ignore[misc]
    ran = machine.bootstrap(running.node, running.url)
    assert (ran.code, running.node.name in ran.out) == (20, True), ran
    time.sleep(max(0.0, until - time.monotonic()))

    server.start(running.url.removeprefix("http://"))
    running.until(lambda: running.spooled() == 0, PATIENCE_SECONDS + AWAY_SECONDS)
    running.until(lambda: set(held_serials(running)) == {machine.gpus[at].serial for at in (1, 2)})

    faults = {("xid_79", 2): 1, ("xid_63", 1): 1, ("xid_94", 3): 3}
    expected = {(code, machine.gpus[at].serial): count for (code, at), count in faults.items()}
    assert told(operator, running.node.name) == expected
    assert machine.bootstrap(running.node, running.url).code == 10  # reads the whole log again
    assert told(operator, running.node.name) == expected
    after = walk(auditor, f"/v1/nodes/{running.node.name}/history")
    assert after[: len(before)] == before
    sequences = [one["sequence"] for one in after]
    assert len(set(sequences)) == len(sequences)
    told_once = Counter(one["data"]["code"] for one in after if one["type"] == "failure.recorded")
    opened = Counter(one["data"]["serial"] for one in after if one["type"] == "quarantine.opened")
    assert told_once == {"xid_79": 1, "xid_63": 1, "xid_94": 1}
    assert opened == {machine.gpus[at].serial: 1 for at in (1, 2)}


def comes_back_under_another_name(server: LiveServer, old: Instance, operator: Caller, folder: Path) -> None:
    """Another instance, another name, and in another slot the GPU that fell off the bus."""
    machine = Instance(folder, efa=4)
    machine.carry(0, old.gpus[2])
    node = server.caller("node", f"story-{machine.number}")
    assert (node.name, machine.provider_id) != (f"story-{old.number}", old.provider_id)

    ran = machine.bootstrap(node, server.url)

    assert (ran.code, "device_quarantined" in ran.out) == (10, True), ran
    with agent_on(server, machine, node.name) as running:
        running.until(lambda: running.decision().get("codes") == ["device_quarantined"])
        assert held_serials(running) == [old.gpus[2].serial]
    assert {one["owner"] for one in holds_on(operator, machine)} == {"rule:xid_79"}
