# SPDX-License-Identifier: Apache-2.0
"""Do several parts of one report make one list of each kind, and is each finding put to its device?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from api import report_parts
from registry.domain.errors import InvalidField, PartUnreadable
from registry.domain.failures import look_up
from registry.domain.naming import Roll
from registry.domain.reports import (
    CheckResult,
    CheckStatus,
    DeviceEntry,
    Findings,
    Inventory,
    Notice,
    Report,
    ReportedFailure,
)
from tests.api.test_reports_multipart import report
from tests.collectors.dcgm import diag4, gpus4, health, warning
from tests.collectors.documents import list_document, xml_document
from tests.collectors.machines import h100_gpus

FAIL, UNKNOWN, PASS = CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.PASS
GPUS = h100_gpus(3)
SLOTS = [entry.slot for entry in report({"nvidia_smi_xml": xml_document(GPUS)}).entries or ()]
SERIALS = [gpu.serial for gpu in GPUS]


def efa(number: int, **changes: Any) -> DeviceEntry:
    plain: dict[str, Any] = {"slot": f"0000:{number:02x}:00.0", "name": f"rdmap{number}s0"}
    return DeviceEntry("efa", "amazon", **{**plain, **changes})


def speak(monkeypatch: pytest.MonkeyPatch, **said: Inventory | Findings) -> None:
    """Let a part say this instead of what its parser would read in it."""
    for table in ("EFA_PARTS", "FINDING_PARTS"):
        parsers = {name: (lambda *_, told=told: told) for name, told in said.items()}
        known = getattr(report_parts, table)
        monkeypatch.setattr(f"api.reports_multipart.{table}", {name: parsers.get(name, known[name]) for name in known})


def efas(made: Report) -> list[DeviceEntry]:
    return [entry for entry in made.entries or () if entry.kind == "efa"]


def diag_results(made: Report) -> dict[str | None, CheckStatus]:
    return {one.device: one.status for one in made.checks if one.name == "dcgm.diag"}


# --- findings -------------------------------------------------------------------------------------------------------


def test_a_diagnostic_names_gpus_by_serial_and_the_list_says_where_they_are() -> None:
    diag = diag4([("GPU", 0, "Pass", ()), ("GPU", 1, "Fail", [warning(52)])], serials=SERIALS)

    made = report({"nvidia_smi_xml": xml_document(GPUS), "dcgm_diag": diag})

    assert diag_results(made) == {SLOTS[0]: PASS, SLOTS[1]: FAIL}
    ((failure),) = made.failures
    assert (failure.node, failure.device, failure.slot) == ("node-a", None, SLOTS[1])


def placed(made: Report) -> list[tuple[str | None, str | None]]:
    """Where the faults are by the report's own list, as the service finds it where no list of the boot was longer."""
    roll = Roll.of(made.entries or (), made.partial)
    return [(one.slot, one.device) for one in map(roll.place, made.failures)]


def test_a_gpu_that_is_only_counted_stays_so_and_is_the_one_of_that_place_in_the_list() -> None:
    watches = {"2": {"Memory system": ("Failure", ["something"])}}

    made = report({"nvidia_smi_xml": xml_document(GPUS), "dcgm_health": health("Failure", GPU=watches)})

    assert [one.device for one in made.checks if one.name == "dcgm.health"] == ["gpu:2"]
    assert [failure.device for failure in made.failures] == ["gpu:2"]
    assert placed(made) == [(SLOTS[2], None)]


def test_a_list_without_slots_names_it_by_its_uuid() -> None:
    watches = {"2": {"Memory system": ("Failure", ["something"])}}

    made = report({"nvidia_smi_list": list_document(GPUS), "dcgm_health": health("Failure", GPU=watches)})

    assert placed(made) == [(None, GPUS[2].uuid)]


def test_a_list_as_json_serves_as_well() -> None:
    devices = [
        {"kind": "gpu", "vendor": "nvidia", "uuid": gpu.uuid, "slot": slot}
        for gpu, slot in zip(GPUS, SLOTS, strict=True)
    ]
    watches = {"1": {"Memory system": ("Failure", ["something"])}}

    made = report({"devices": json.dumps(devices), "dcgm_health": health("Failure", GPU=watches)})

    assert placed(made) == [(SLOTS[1], None)]


def test_without_a_list_the_name_stays_for_the_service_to_find() -> None:
    made = report({"dcgm_health": health("Failure", GPU={"1": {"Memory system": ("Failure", ["something"])}})})

    assert made.entries is None
    assert made.covers is None
    assert [failure.device for failure in made.failures] == ["gpu:1"]


def test_the_same_output_again_tells_of_the_same_fault_in_this_boot_and_of_another_in_the_next() -> None:
    parts = {"dcgm_diag": gpus4(2, {1: ("Fail", [warning(52)])})}

    def ids(**fields: str) -> list[str]:
        return [failure.failure_id for failure in report({**parts, **fields}).failures]

    assert ids() == ids(report_id="r-2") != ids(boot_id="b-2")


def test_a_kernel_log_is_read_with_the_boot_and_the_time_of_the_report() -> None:
    log = b"[   12.345678] NVRM: Xid (PCI:0000:53:00): 79, pid=1, GPU has fallen off the bus.\n"

    def failures(boot_id: str) -> list[ReportedFailure]:
        return list(report({"kernel_log": log, "boot_id": boot_id}).failures)

    ((first,), (again,), (other)) = failures("b-1"), failures("b-1"), failures("b-2")
    assert (first.code, first.slot, first.node) == ("xid_79", "0000:53:00.0", "node-a")
    assert first.failure_id == again.failure_id != other[0].failure_id


def test_a_host_that_the_report_names_stands_before_what_a_part_says_of_the_same_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speak(monkeypatch, dmidecode=Findings(host={"dmi": {"serial": "part", "uuid": "part"}}))

    made = report({"dmidecode": b"x", "host": '{"dmi": {"serial": "field"}, "chassis": {"serial": "c"}}'})

    assert made.host == {"dmi": {"serial": "field", "uuid": "part"}, "chassis": {"serial": "c"}}


def test_readings_of_a_part_are_added_to_those_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch, dcgm_health=Findings(readings={"gpu:1": {"margin": 12}, "gpu:9": {"margin": 1}}))

    made = report({"nvidia_smi_xml": xml_document(GPUS), "dcgm_health": b"x"})

    assert [entry.readings.get("margin") for entry in made.entries or ()] == [None, 12, None]
    assert all("temperature_celsius" in entry.readings for entry in made.entries or ())


def test_results_of_all_parts_and_fields_stand_beside_one_another() -> None:
    fields = {"checks": '[{"name": "gpu.xid", "status": "pass"}]', "dcgm_health": health("Healthy")}

    made = report({"nvidia_smi_xml": xml_document(GPUS), **fields})

    assert {"gpu.ecc", "gpu.xid", "dcgm.health"} <= {check.name for check in made.checks}


def test_a_setting_that_fails_everywhere_is_no_fault_of_any_device() -> None:
    off = warning(29, 5, "persistence mode is off")

    made = report(
        {"nvidia_smi_xml": xml_document(GPUS), "dcgm_diag": gpus4(3, dict.fromkeys(range(3), ("Fail", [off])))}
    )

    assert made.failures == ()
    assert diag_results(made) == {None: UNKNOWN}
    assert look_up("dcgm_persistence_mode").cause == "platform"


def test_one_part_that_cannot_be_read_is_named_and_refuses_the_others() -> None:
    with pytest.raises(PartUnreadable) as refused:
        report({"nvidia_smi_xml": xml_document(GPUS), "dcgm_health": health("Healthy"), "dcgm_diag": b"{"})

    assert [error.pointer for error in refused.value.errors] == ["/dcgm_diag"]
    assert refused.value.detail.startswith("dcgm_diag cannot be read: ")


# --- EFAs -----------------------------------------------------------------------------------------------------------


def test_the_first_list_with_slots_speaks_and_the_others_fill_in_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(
        monkeypatch,
        efa_sysfs=Inventory(
            "efa", (efa(1, gid="fe80::1"), efa(2)), checks=(CheckResult("efa.link", PASS, efa(1).slot),)
        ),
        lspci=Inventory("efa", (efa(1, name=None, serial="S1", model="0xefa2"), efa(2, name=None))),
        fi_info=Inventory("efa", (efa(2, slot=None, gid="fe80::2"),), warnings=(Notice("not_an_efa", "tcp"),)),
    )

    made = report({"fi_info": b"x", "lspci": b"x", "efa_sysfs": b"x"})

    assert efas(made) == [efa(1, gid="fe80::1", serial="S1", model="0xefa2"), efa(2, gid="fe80::2")]
    assert made.covers == {"efa"}
    assert made.partial == frozenset()
    assert made.checks == (CheckResult("efa.link", PASS, efa(1).slot),)
    assert [notice.code for notice in made.warnings] == ["not_an_efa"]


def test_a_list_without_slots_gives_way_to_one_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = [efa(number, name=None) for number in (1, 2)]
    speak(
        monkeypatch,
        ibv_devinfo=Inventory("efa", (efa(1, slot=None, name="efa_0"), efa(2, slot=None, name="efa_1"))),
        lspci=Inventory("efa", tuple(nameless)),
    )

    assert efas(report({"ibv_devinfo": b"x", "lspci": b"x"})) == nameless


def test_an_efa_that_only_the_bus_shows_is_listed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(
        monkeypatch,
        ibv_devinfo=Inventory("efa", (efa(1),)),
        lspci=Inventory("efa", (efa(1, name=None), efa(2, name=None))),
    )

    assert [entry.slot for entry in efas(report({"ibv_devinfo": b"x", "lspci": b"x"}))] == [efa(1).slot, efa(2).slot]


def test_a_list_that_is_shorter_than_another_without_slots_is_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(efa(number, slot=None, name=f"efa_{number}") for number in range(4))
    speak(monkeypatch, ibv_devinfo=Inventory("efa", names), lspci=Inventory("efa", (efa(1, name=None),)))

    assert report({"ibv_devinfo": b"x", "lspci": b"x"}).partial == {"efa"}


def test_an_empty_list_says_that_there_are_none_unless_another_shows_some(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch, efa_sysfs=Inventory("efa", ()), lspci=Inventory("efa", (efa(1),)))

    assert efas(report({"efa_sysfs": b"x"})) == []
    assert report({"efa_sysfs": b"x"}).covers == {"efa"}
    assert efas(report({"efa_sysfs": b"x", "lspci": b"x"})) == [efa(1)]


def test_an_output_that_could_not_look_does_not_outweigh_one_that_did(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = CheckResult("efa.link", PASS, efa(1).slot)
    speak(
        monkeypatch,
        efa_sysfs=Inventory("efa", (efa(1),), checks=(seen,)),
        ibv_devinfo=Inventory("efa", (efa(1),), checks=(CheckResult("efa.link", UNKNOWN, "rdmap1s0"),)),
        lspci=Inventory("efa", (efa(1),), checks=(CheckResult("gpu.responding", FAIL, "0000:53:00.0"),)),
    )

    made = report({"efa_sysfs": b"x", "ibv_devinfo": b"x", "lspci": b"x"})

    assert made.checks == (seen, CheckResult("gpu.responding", FAIL, "0000:53:00.0"))


def test_efas_beside_raw_output_of_efas_are_refused_and_gpus_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch, efa_sysfs=Inventory("efa", (efa(1),)))
    listed = [
        {"kind": "gpu", "vendor": "nvidia", "uuid": "GPU-1"},
        {"kind": "efa", "vendor": "amazon", "name": "efa_0"},
    ]

    with pytest.raises(InvalidField) as refused:
        report({"efa_sysfs": b"x", "devices": json.dumps(listed)})
    made = report({"efa_sysfs": b"x", "devices": json.dumps(listed[:1])})

    assert [error.pointer for error in refused.value.errors] == ["/devices/1"]
    assert made.covers == {"gpu", "efa"}


def test_gpus_and_efas_of_raw_parts_make_one_report(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch, efa_sysfs=Inventory("efa", (efa(1),)))

    made = report({"efa_sysfs": b"x", "nvidia_smi_list": list_document(GPUS)})

    assert [entry.kind for entry in made.entries or ()] == ["gpu", "gpu", "gpu", "efa"]
    assert made.covers == {"gpu", "efa"}
