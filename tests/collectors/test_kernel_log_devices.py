# SPDX-License-Identifier: Apache-2.0
"""Which device does the log name: a GPU by its UUID or serial, an NVSwitch that is none, the driver as a whole?"""

from __future__ import annotations

import pytest

from tests.collectors.kernel_logs import (
    OFF_BUS,
    SERIAL,
    SLOT,
    UUID,
    dmesg,
    dmesg_human,
    evidence,
    only,
    read,
    results,
    said,
)

UUID_LINE = f"NVRM: GPU at PCI:0000:5a:00: {UUID}"
SERIAL_LINE = f"NVRM: GPU Board Serial Number: {SERIAL}"


def test_the_uuid_that_precedes_an_xid_names_the_device_and_the_serial_is_kept() -> None:
    failure = only(read(said(UUID_LINE, SERIAL_LINE, OFF_BUS)))

    assert (failure.device, failure.slot) == (UUID, SLOT)
    assert (evidence(failure)["uuid"], evidence(failure)["serial"]) == (UUID, SERIAL)


def test_a_serial_alone_names_the_device() -> None:
    failure = only(read(said(f"NVRM: GPU 0000:5a:00.0: GPU serial number is {SERIAL}.", OFF_BUS)))

    assert (failure.device, failure.slot) == (SERIAL, SLOT)


def test_a_name_that_comes_later_is_evidence_and_changes_no_id() -> None:
    before = only(read(said(OFF_BUS)))
    after = only(read(said(OFF_BUS, f"NVRM: GPU 0000:5a:00.0: GPU serial number is {SERIAL}.")))

    assert (after.device, evidence(after)["serial"]) == (None, SERIAL)
    assert after.failure_id == before.failure_id


@pytest.mark.parametrize(
    "lines",
    [
        (UUID_LINE.replace("5a", "6b"), SERIAL_LINE),
        (UUID_LINE.replace("5a", "6b"), "NVRM: another message", SERIAL_LINE),
        (SERIAL_LINE,),
        ("NVRM: GPU at PCI:0000:5a:00: GPU-00000000-0000-0000-0000-000000000000", "NVRM: GPU Board Serial Number: 0"),
    ],
    ids=["of another gpu", "of nobody", "before any gpu", "placeholders"],
)
def test_other_names_name_nobody(lines: tuple[str, ...]) -> None:
    failure = only(read(said(*lines, OFF_BUS)))

    assert (failure.device, failure.slot) == (None, SLOT)


def test_off_the_bus_is_one_failure_however_often_the_driver_says_it() -> None:
    data = said(
        OFF_BUS,
        "NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus.",
        f"NVRM: GPU 0000:5a:00.0: GPU serial number is {SERIAL}.",
    )

    assert only(read(data)).code == "xid_79"


# --- switches -----------------------------------------------------------------------------------------------------

SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): "


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)", "sxid_28006", ("nonfatal", 46)),
        ("20034, Fatal, Link 48 LTSSM Fault Up", "sxid_20034", ("fatal", 48)),
        ("20009, Non-fatal, Li", "sxid_20009", ("nonfatal", None)),
        ("26006, SOE HALTED", "sxid_26006", (None, None)),
    ],
)
def test_an_error_of_a_switch_names_no_gpu(text: str, code: str, expected: tuple[object, ...]) -> None:
    findings = read(said(SWITCH + text))

    failure, kept = only(findings), evidence(only(findings))
    assert (failure.code, failure.device, failure.slot) == (code, None, None)
    assert (kept["nvswitch"], kept["nvswitch_slot"]) == (3, "0000:c1:00.0")
    assert (kept.get("severity"), kept.get("link")) == expected
    assert results(findings) == [("pass", None, None)]


def test_the_details_of_a_switch_error_are_no_further_errors() -> None:
    data = said(
        SWITCH + "20034, Fatal, Link 48 LTSSM Fault Up",
        SWITCH + "20034, Severity 1 Engine instance 48 Sub-engine instance 00",
        SWITCH + "20034, Data {0x10000000, 0x10000000}",
        SWITCH + "20034, Fatal, Link 49 LTSSM Fault Up",
    )

    assert only(read(data)).count == 2


def test_two_switches_with_one_code_are_two_failures() -> None:
    other = SWITCH.replace("nvswitch3", "nvswitch1").replace("c1", "c2")

    assert len(read(said(SWITCH + "20034, Fatal", other + "20034, Fatal")).failures) == 2


# --- restarts -----------------------------------------------------------------------------------------------------

LOADING = "NVRM: loading NVIDIA UNIX {}  570.158.01  Release Build  (builder@host)  Mon Jun  2 13:13:04 UTC 2025"


@pytest.mark.parametrize("module", ["x86_64 Kernel Module", "Open Kernel Module for x86_64"])
def test_a_driver_that_is_loaded_anew_is_a_restart(module: str) -> None:
    lines = [(10.0, LOADING.format(module)), (900.0, OFF_BUS), (2000.0, LOADING.format(module))]

    fault, restart = read(dmesg(lines)).failures

    assert (restart.code, restart.slot, restart.device) == ("driver_loaded", None, None)
    assert evidence(restart)["driver_version"] == "570.158.01"
    assert fault.occurred_at is not None
    assert restart.occurred_at is not None
    assert restart.occurred_at > fault.occurred_at


def test_the_load_that_belongs_to_the_boot_is_nothing_new() -> None:
    assert read(dmesg([(10.0, LOADING.format("Kernel Module"))])).failures == ()


def test_a_load_without_a_certain_time_lets_nothing_go_on() -> None:
    lines = [(900.0, OFF_BUS), (2000.0, LOADING.format("Kernel Module"))]

    assert [one.code for one in read(dmesg(lines), boot_time=None).failures] == ["xid_79"]
    assert [one.code for one in read(dmesg_human(lines)).failures] == ["xid_79"]
