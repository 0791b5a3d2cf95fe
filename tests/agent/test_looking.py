# SPDX-License-Identifier: Apache-2.0
"""Does one look tell what was seen, and never take what could not be seen for something that is gone?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from registry.agent import looking
from registry.agent.looking import Look, Source, longest, look_at
from registry.collectors.running import ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.reports import (
    CheckResult,
    CheckStatus,
    DeviceEntry,
    Findings,
    Inventory,
    Kind,
    ReportedFailure,
    device_by_index,
)

GPUS = tuple(
    DeviceEntry(Kind.GPU, "nvidia", slot=f"0000:{bus}:00.0", serial=f"165490001000{bus[0]}") for bus in ("10", "20")
)
EFAS = (DeviceEntry(Kind.EFA, "amazon", slot="0000:30:00.0"),)
SECOND = device_by_index(Kind.GPU, 1)


def seen(*sources: Source, known: Mapping[str, Sequence[DeviceEntry]] | None = None) -> Look:
    return look_at(sources, known or {})


def says(said: Inventory | Findings | Exception, *checks: str, name: str = "source") -> Source:
    def read() -> Inventory | Findings:
        if isinstance(said, Exception):
            raise said
        return said

    return Source(name, read, checks)


def test_a_list_of_each_kind_and_all_checks_come_together() -> None:
    passed = CheckResult("efa.link", CheckStatus.PASS, EFAS[0].slot)

    found = seen(says(Inventory("gpu", GPUS)), says(Inventory("efa", EFAS, checks=(passed,))))

    assert found.lists == {"gpu": GPUS, "efa": EFAS}
    assert found.checks == (passed,)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ToolFailed("nvidia-smi gave no whole answer"), "GPUs: nvidia-smi gave no whole answer"),
        (PartUnreadable("no XML"), "GPUs: no XML"),
        (PermissionError(13, "Permission denied", "/sys/x"), "GPUs: /sys/x cannot be read: Permission denied"),
    ],
)
def test_a_source_that_cannot_be_read_lists_nothing_and_makes_its_checks_unknown(error: Exception, reason: str) -> None:
    found = seen(says(error, "gpu.ecc", "gpu.row_remap", name="GPUs"), says(Inventory("efa", EFAS)))

    assert found.lists == {"efa": EFAS}
    assert [(one.name, one.status, one.message) for one in found.checks] == [
        ("gpu.ecc", CheckStatus.UNKNOWN, reason),
        ("gpu.row_remap", CheckStatus.UNKNOWN, reason),
    ]
    assert found.troubles == {"GPUs": reason}


def test_a_source_that_is_not_here_says_nothing() -> None:
    found = seen(says(ToolMissing("no dcgmi"), "dcgm.health"))

    assert found == Look()


def test_a_list_that_its_tool_calls_short_is_partial() -> None:
    assert seen(says(Inventory("gpu", GPUS, attached=3))).partial == {"gpu"}


def test_a_tool_that_lists_nobody_calls_nobody_gone() -> None:
    failed = CheckResult("gpu.responding", CheckStatus.FAIL, GPUS[1].slot)

    found = seen(says(Inventory("gpu", (), checks=(failed,), is_list=False)), known={"gpu": GPUS})

    assert (found.lists, found.partial, [check.name for check in found.checks]) == ({}, frozenset(), ["gpu.responding"])


@pytest.mark.parametrize("known", [{}, {"gpu": GPUS}], ids=["this list", "the list before"])
def test_a_device_that_a_tool_only_counts_gets_its_place(known: dict[str, Sequence[DeviceEntry]]) -> None:
    health = Findings(
        checks=(CheckResult("dcgm.health", CheckStatus.FAIL, SECOND),),
        failures=(ReportedFailure("f", "dcgm_fr_x", device=SECOND),),
    )
    lists = [] if known else [says(Inventory("gpu", GPUS))]

    found = seen(*lists, says(health), known=known)

    assert found.checks[0].device == GPUS[1].slot
    assert (found.failures[0].slot, found.failures[0].device) == (GPUS[1].slot, None)


@pytest.mark.parametrize("printed", [False, True])
def test_by_a_list_that_is_shorter_than_another_of_this_boot_nobody_can_count(printed: bool) -> None:
    left = [replace(one, readings={"index": at} if printed else {}) for at, one in enumerate(GPUS[1:])]
    health = Findings(failures=(ReportedFailure("f", "dcgm_fr_x", device=device_by_index("gpu", 0)),))

    found = seen(says(Inventory("gpu", tuple(left))), says(health), known={"gpu": GPUS})

    assert (found.failures[0].slot, found.failures[0].device) == (None, None)
    assert longest({"gpu": GPUS}, found.lists) == {}, "the longer one stays known"


def test_what_is_wrong_with_a_device_that_nobody_can_name_is_not_lost() -> None:
    health = Findings(
        checks=(CheckResult("dcgm.health", CheckStatus.FAIL, SECOND, message="too hot"),),
        failures=(ReportedFailure("f", "dcgm_fr_x", device=SECOND, message="too hot"),),
    )

    found = seen(says(health))

    assert (found.checks[0].device, found.checks[0].message) == (None, "gpu:1: too hot")
    assert (found.failures[0].device, found.failures[0].message) == (None, "gpu:1: too hot")


@pytest.mark.parametrize("key", [lambda: SECOND, lambda: GPUS[1].serial, lambda: GPUS[1].slot])
def test_readings_go_to_their_device(key: Callable[[], str]) -> None:
    found = seen(says(Inventory("gpu", GPUS)), says(Findings(readings={key(): {"power_watts": 71.5}})))

    assert [entry.readings for entry in found.lists["gpu"]] == [{}, {"power_watts": 71.5}]


def test_what_the_host_is_comes_along_where_it_is_known() -> None:
    found = seen(says(Findings(host={"dmi": {"serial": "C1"}, "chassis": {}})))

    assert found.host == {"dmi": {"serial": "C1"}}


def test_faults_of_the_first_source_do_not_wait_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PATIENCE_SECONDS", 0.01)
    early: list[Look] = []
    told = threading.Event()

    def hanging() -> Inventory:
        assert told.wait(10)
        return Inventory("gpu", GPUS)

    def hurry(found: Look) -> None:
        early.append(found)
        told.set()

    failure = ReportedFailure("k", "xid_79", slot=GPUS[0].slot)
    log = says(Findings(failures=(failure,)))

    found = look_at([log, Source("GPUs", hanging, ())], {}, hurry)

    assert early == [Look(failures=(failure,))]
    assert (found.failures, found.lists) == ((failure,), {"gpu": GPUS})


def test_nobody_hurries_without_faults_or_when_all_answer_at_once() -> None:
    early: list[Look] = []
    failing = says(Findings(failures=(ReportedFailure("k", "xid_79"),)))

    look_at([failing, says(Inventory("gpu", GPUS))], {}, early.append)
    look_at([says(Findings()), says(Inventory("gpu", GPUS))], {}, early.append)

    assert early == []


def test_sources_are_read_beside_each_other() -> None:
    together = threading.Barrier(3)

    def meet() -> Findings:
        together.wait(10)
        return Findings()

    found = look_at([Source(name, meet, ("x",)) for name in "abc"], {})

    assert found.troubles == {}
