# SPDX-License-Identifier: Apache-2.0
"""What happens in the demo? A GPU falls off the bus, comes back under another name, and is refused until released.

Every step is a real request; a step whose answer is not the expected one ends the story.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import click

from registry.admin.demo_hardware import PROFILE, Gpu, Machine, list_efas, make_machine, print_gpus
from registry.admin.ground import utc_now
from registry.client import Client, ClientError
from registry.domain.times import rfc3339

NODES = ("node-a", "node-b")

CHECKS = [{"name": "gpu.xid", "status": "pass"}, {"name": "efa.link", "status": "pass"}]
"""What a node finds by itself; the rest the server derives from the list and from nvidia-smi's output."""


class StoryBroken(Exception):
    """A step had another answer than it must have."""


@dataclass(slots=True)
class Story:
    """The story, told step by step. `clock` is the time that the invented nvidia-smi prints."""

    url: str
    tokens: Mapping[str, str]
    gap_seconds: float
    clock: datetime
    step: int = field(default=0)

    def play(self) -> None:
        """Tell it from beginning to end, the audit excepted. Raises StoryBroken."""
        try:
            self._play()
        except ClientError as error:
            raise StoryBroken(f"step {self.step} had no usable answer: {error.detail}") from error

    def _play(self) -> None:
        first, second, other = make_machine("node-a", 1), make_machine("node-a", 2), make_machine("node-b", 3)
        bad = first.gpus[3]
        self._admit_first(first)
        self._lose_gpu(first, bad)
        other = other.with_gpu(5, bad)
        self._meet_again(other, bad)
        self._admit_replacement(second)
        self._release(other, bad)
        self._tell_history(bad)

    def _admit_first(self, machine: Machine) -> None:
        self._begin("Node A reports: 8 GPUs as nvidia-smi -q -x prints them, 32 EFA adapters beside them.")
        self._refused(self._report(machine), {"passes_insufficient"})
        self._begin("Node A reports again, and has brought two clean passes.")
        self._admitted(self._report_later(machine))

    def _lose_gpu(self, machine: Machine, gpu: Gpu) -> None:
        slot = machine.slot_of(gpu)
        self._begin(f"GPU 3 of node A, serial {gpu.serial}, falls off the bus: Xid 79 in slot {slot}.")
        fault = {
            "failure_id": str(uuid.uuid4()),
            "node": machine.node,
            "slot": slot,
            "code": "xid_79",
            "occurred_at": rfc3339(utc_now()),
            "message": "GPU has fallen off the bus.",
        }
        answer = self._client(machine.node).post("failures", body=fault)
        item = answer["items"][0]
        self._expect(item["outcome"] == "recorded", "the failure is recorded", answer)
        click.echo(f"   failure recorded: {item['failure']['code']}, effect {item['failure']['effect']}")
        hold = self._open_hold(gpu)
        click.echo(f"   quarantine {hold['id']} opened: owner {hold['owner']}, release {hold['release_policy']}")
        self._begin("May node A take work now?")
        self._refused(self._client(machine.node).admission(machine.node), {"device_quarantined"})

    def _meet_again(self, machine: Machine, bad: Gpu) -> None:
        slot = machine.slot_of(bad)
        self._begin(
            f"Node A's instance is given back. The same board turns up in slot {slot} of node B, a new instance."
        )
        self._refused(self._report(machine), {"device_quarantined"})
        self._begin("Node B reports again. No number of clean passes helps.")
        self._refused(self._report_later(machine), {"device_quarantined"})

    def _admit_replacement(self, machine: Machine) -> None:
        self._begin("Node A has a new instance with healthy GPUs under its old name.")
        self._refused(self._report(machine), {"passes_insufficient"})
        self._begin("Node A reports again: nothing of the bad GPU sticks to the name.")
        self._admitted(self._report_later(machine))

    def _release(self, machine: Machine, gpu: Gpu) -> None:
        self._begin("An operator releases the GPU, and says why.")
        hold = self._open_hold(gpu)
        body = {"reason": "Reseated; passed 24 hours of burn-in on the bench."}
        released = self._client("operator").post("quarantines", hold["id"], "release", body=body)
        self._expect(released["state"] == "released", "the quarantine is released", released)
        click.echo(f"   quarantine {hold['id']} released")
        self._begin("Node B has to prove itself anew: first pass.")
        self._refused(self._report_later(machine), {"passes_insufficient"})
        self._begin("Second pass.")
        self._admitted(self._report_later(machine))

    def _tell_history(self, gpu: Gpu) -> None:
        self._begin(f"An auditor asks for everything that happened to serial {gpu.serial}, on whichever node.")
        events = list(self._client("auditor").items("devices", gpu.serial, "history"))
        for event in events:
            _tell_event(event)
        types, nodes = {event["type"] for event in events}, {event["data"].get("node") for event in events}
        needed = {"device.registered", "failure.recorded", "quarantine.opened", "quarantine.released"}
        self._expect(needed <= types, f"the history holds {', '.join(sorted(needed))}", sorted(types))
        self._expect(set(NODES) <= nodes, "the history spans both nodes", sorted(map(str, nodes)))

    def _report(self, machine: Machine) -> dict[str, Any]:
        """Send what the machine's tools print now; give the decision that came back."""
        self.clock += timedelta(seconds=max(self.gap_seconds, 1))
        fields = {
            "report_id": str(uuid.uuid4()),
            "boot_id": machine.boot_id,
            "provider_id": machine.provider_id,
            "profile": PROFILE,
            "covers": json.dumps(["gpu", "efa"]),
            "devices": json.dumps(list_efas(machine)),
            "checks": json.dumps(CHECKS),
        }
        parts = {"nvidia_smi_xml": print_gpus(machine, self.clock).encode()}
        answer = self._client(machine.node).report(machine.node, fields, parts, fields=fields)
        outcome = answer["pass"]
        counted = "counted" if outcome["counted"] else f"did not count ({outcome['because']})"
        click.echo(f"   the run {counted}: {outcome['have']} of {outcome['need']} passes")
        admission: dict[str, Any] = answer["admission"]
        return admission

    def _report_later(self, machine: Machine) -> dict[str, Any]:
        """The same, when the gap that must lie between two passes is over."""
        time.sleep(self.gap_seconds + 0.1)
        return self._report(machine)

    def _open_hold(self, gpu: Gpu) -> dict[str, Any]:
        found = list(self._client("operator").items("quarantines", params={"device": gpu.serial, "state": "open"}))
        self._expect(len(found) == 1, f"one quarantine is open on serial {gpu.serial}", found)
        return found[0]

    def _refused(self, decision: Mapping[str, Any], codes: set[str]) -> None:
        _tell(decision)
        given = {reason["code"] for reason in decision["reasons"]}
        is_right = not decision["admitted"] and codes <= given
        self._expect(is_right, f"refused with {', '.join(sorted(codes))}", decision)

    def _admitted(self, decision: Mapping[str, Any]) -> None:
        _tell(decision)
        self._expect(decision["admitted"], "admitted", decision)

    def _expect(self, is_right: object, expectation: str, answer: object) -> None:
        if not is_right:
            told = json.dumps(answer, indent=2, ensure_ascii=False)
            raise StoryBroken(f"step {self.step} is not as it must be. Expected: {expectation}. The answer was: {told}")

    def _begin(self, sentence: str) -> None:
        self.step += 1
        click.secho(f"\n{self.step:>2} {sentence}", bold=True)

    def _client(self, name: str) -> Client:
        return Client(self.url, self.tokens[name])


def _tell(decision: Mapping[str, Any]) -> None:
    if decision["admitted"]:
        click.secho(f"   {decision['node']}: ADMITTED", fg="green")
        return
    click.secho(f"   {decision['node']}: NOT ADMITTED ({decision['disposition']})", fg="red")
    for reason in decision["reasons"]:
        click.echo(f"     {reason['code']}: {reason['message']}")


def _tell_event(event: Mapping[str, Any]) -> None:
    who = f"{event['actor']['kind']}:{event['actor']['name']}"
    node = event["data"].get("node") or "-"
    click.echo(f"   {event['sequence']:>5}  {event['at'][:19]}Z  {event['type']:<20}  {node:<7}  {who}")
