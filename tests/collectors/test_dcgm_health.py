# SPDX-License-Identifier: Apache-2.0
"""Is what DCGM's health watches say laid to the right GPU, and to nobody when they said nothing?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.collectors import dcgm_health
from registry.collectors.running import ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.failures import CATALOGUE
from registry.domain.reports import CheckStatus, Findings
from tests.collectors.dcgm import health

FAIL, WARN, UNKNOWN, PASS = CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN, CheckStatus.PASS
DBE = ["Detected 3 volatile double-bit ECC error(s) in GPU", "4. Drain the GPU and reset it or reboot the node."]


def statuses(found: Findings) -> dict[str | None, CheckStatus]:
    assert {check.name for check in found.checks} == {"dcgm.health"}
    return {check.device: check.status for check in found.checks}


def faults(found: Findings) -> list[tuple[str | None, str]]:
    return [(failure.device, failure.code) for failure in found.failures]


def test_a_healthy_report_names_nothing_and_is_a_pass_of_the_node() -> None:
    found = dcgm_health.parse(health("Healthy"))

    assert statuses(found) == {None: PASS}
    assert found.failures == ()


def test_a_failed_watch_is_the_fault_of_its_gpu_and_its_pieces_are_one_sentence() -> None:
    found = dcgm_health.parse(health("Failure", GPU={"4": {"Memory system": ("Failure", DBE)}}))

    assert statuses(found) == {"gpu:4": FAIL}
    assert faults(found) == [("gpu:4", "dcgm_volatile_dbe_detected")]
    assert found.failures[0].message == (
        "Memory system: Detected 3 volatile double-bit ECC error(s) in GPU 4. Drain the GPU and reset it or reboot the "
        "node."
    )


def test_several_incidents_of_one_watch_are_each_a_fault() -> None:
    pieces = [*DBE, ", GPU 4 had memory errors and row remappings are", "pending"]

    found = dcgm_health.parse(health("Failure", GPU={"4": {"Memory system": ("Failure", pieces)}}))

    assert faults(found) == [("gpu:4", "dcgm_volatile_dbe_detected"), ("gpu:4", "dcgm_pending_row_remap")]


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ("Memory system", "dcgm_health_memory"),
        ("NVLINK system", "dcgm_health_nvlink"),
        ("Driver", "dcgm_health_driver"),
        ("A new system", "dcgm_health_other"),
    ],
)
def test_a_sentence_nobody_knows_is_a_fault_by_its_watch(system: str, code: str) -> None:
    found = dcgm_health.parse(health("Failure", GPU={"0": {system: ("Failure", ["something is wrong"])}}))

    assert faults(found) == [("gpu:0", code)]
    assert code in CATALOGUE


def test_a_warning_is_below_a_failure() -> None:
    watches = {"1": {"Thermal system": ("Warning", ["Detected clock throttling due to thermal violation in GPU 1."])}}

    found = dcgm_health.parse(health("Warning", GPU=watches))

    assert statuses(found) == {"gpu:1": WARN}
    assert found.failures == ()


def test_a_switch_is_not_the_gpu_of_the_same_number() -> None:
    watches = {"0": {"NvSwitch F": ("Failure", ["Detected fatal errors on NvSwitch 0 link 7"])}}

    found = dcgm_health.parse(health("Failure", Switch=watches))

    assert statuses(found) == {None: FAIL}
    assert faults(found) == [(None, "dcgm_nvswitch_fatal_error")]
    assert (found.failures[0].evidence or {})["entity"] == "Switch 0"


def test_a_word_nobody_knows_is_a_failure_and_an_internal_error_is_unknown() -> None:
    odd = dcgm_health.parse(health("Failed!", GPU={"2": {"PCIe system": ("Failed!", ["?"])}}))
    internal = dcgm_health.parse(health("Internal error"))

    assert statuses(odd) == {"gpu:2": FAIL}
    assert statuses(internal) == {None: UNKNOWN}
    assert internal.failures == ()


def test_an_overall_failure_without_a_culprit_fails_the_node() -> None:
    found = dcgm_health.parse(health("Failure", GPU={"1": {"Power system": ("Warning", ["low"])}}))

    assert statuses(found) == {"gpu:1": WARN, None: FAIL}
    assert found.failures == ()


def test_a_gpu_without_a_watch_of_its_own_is_judged_by_its_word() -> None:
    body = {"Overall Health": {"value": "Failure"}, "GPU": {"children": {"3": {"value": "Failure"}}}}

    found = dcgm_health.parse(json.dumps({"body": body}).encode())

    assert statuses(found) == {"gpu:3": FAIL}
    assert faults(found) == [("gpu:3", "dcgm_health_other")]


@pytest.mark.parametrize(
    "words",
    [
        b"Error: Health watches not enabled. Please enable watches. \n",
        b"Error: unable to establish a connection to the specified host: localhost\n",
        b"Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n",
    ],
)
def test_watches_that_cannot_look_are_unknown_and_nobodys_fault(words: bytes) -> None:
    found = dcgm_health.parse(words)

    assert statuses(found) == {None: UNKNOWN}
    assert found.checks[0].message == " ".join(words.decode().split())
    assert found.failures == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"   \n", "is empty"),
        (b"Health monitor systems report\n", "run it with -j"),
        (health("Healthy")[:-20], "cut off"),
        (b'{"body": {}}', "has no 'Overall Health'"),
        (b'{"body": 3}', "has no 'Overall Health'"),
        (health("Failure", GPU={"x": {"PCIe system": ("Failure", [])}}), "is not the number of a GPU"),
    ],
)
def test_what_is_no_health_report_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        dcgm_health.parse(data)


def test_the_collector_asks_and_a_tool_that_hung_is_unknown() -> None:
    def answer(command: object) -> bytes:
        assert command == ["dcgmi", "health", "-c", "-j"]
        return health("Healthy")

    def hang(_: object) -> bytes:
        raise ToolFailed("dcgmi did not answer within 30 s")

    def lack(_: object) -> bytes:
        raise ToolMissing("dcgmi")

    assert statuses(dcgm_health.collect(Path("/"), answer)) == {None: PASS}
    assert statuses(dcgm_health.collect(Path("/"), hang)) == {None: UNKNOWN}
    with pytest.raises(ToolMissing):
        dcgm_health.collect(Path("/"), lack)
