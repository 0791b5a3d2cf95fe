# SPDX-License-Identifier: Apache-2.0
"""Is `nvidia-smi -q -x` read whole, or refused whole with a reason?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from registry.collectors.nvidia_smi_xml import parse
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, Inventory
from tests.collectors.documents import DRIVER, STAMP, h100_xml, xml_document
from tests.collectors.machines import change, gb200_gpus, geforce_gpus, h100_gpus, serial_of, uuid_of, v100_gpus


def status_of(inventory: Inventory, name: str, at: int = 0) -> CheckStatus:
    device = inventory.entries[at].slot
    (status,) = (check.status for check in inventory.checks if (check.name, check.device) == (name, device))
    return status


def test_an_h100_node_is_read_with_everything_that_identifies_its_gpus() -> None:
    inventory = parse(h100_xml())

    assert (inventory.kind, inventory.attached, inventory.stamp) == ("gpu", 8, STAMP)
    assert not inventory.is_partial
    assert [entry.serial for entry in inventory.entries] == [serial_of(0, at) for at in range(8)]
    first = inventory.entries[0]
    assert (first.vendor, first.slot, first.uuid) == ("nvidia", "0000:18:00.0", uuid_of(0, 0))
    assert (first.model, first.part_number, first.module_id) == ("NVIDIA H100 80GB HBM3", "692-2G520-0205-000", "2")
    assert first.firmware == {"vbios": "96.00.9F.00.04", "inforom": "G520.0205.00.05", "driver": DRIVER}
    assert first.readings["temperature_celsius"] == 31
    assert first.readings["memory_temperature_celsius"] == 38
    assert first.readings["driver_version"] == DRIVER
    assert {check.status for check in inventory.checks} == {CheckStatus.PASS}
    assert len(inventory.checks) == 8 * 4


def test_identity_is_never_a_reading() -> None:
    names = set(parse(h100_xml()).entries[0].readings)

    assert not names & {"serial", "uuid", "slot", "model", "vbios", "module_id", "part_number", "name"}


@pytest.mark.parametrize("version", [10, 11, 12, 13, None])
def test_every_known_document_version_is_read_alike(version: int | None) -> None:
    machine = change(v100_gpus(), 1, ecc=("3", "2", "5", "2"))

    inventory = parse(xml_document(machine, version=version))

    readings = inventory.entries[1].readings
    assert inventory.warnings == ()
    assert [readings[f"ecc_volatile_{name}"] for name in ("corrected", "uncorrected")] == [3, 2]
    assert [readings[f"ecc_aggregate_{name}"] for name in ("corrected", "uncorrected")] == [5, 2]
    assert status_of(inventory, "gpu.ecc", 0) is CheckStatus.PASS
    assert status_of(inventory, "gpu.ecc", 1) is CheckStatus.FAIL
    assert status_of(inventory, "gpu.row_remap", 0) is CheckStatus.PASS


def test_sram_errors_count_whether_they_are_split_or_not() -> None:
    split = h100_xml(1).replace(b"<sram_uncorrectable_parity>0", b"<sram_uncorrectable_parity>1", 1)
    split = split.replace(b"<sram_uncorrectable_secded>0", b"<sram_uncorrectable_secded>2", 1)
    whole_too = split.replace(
        b"<sram_correctable>0", b"<sram_uncorrectable>3</sram_uncorrectable><sram_correctable>0", 1
    )

    assert parse(split).entries[0].readings["ecc_volatile_uncorrected"] == 3
    assert parse(whole_too).entries[0].readings["ecc_volatile_uncorrected"] == 3


def test_a_newer_document_is_read_for_what_is_in_it_and_its_version_named() -> None:
    (notice,) = parse(h100_xml(version=14)).warnings

    assert notice.code == "unknown_document_version"
    assert "nvsmi_device_v14.dtd" in notice.message


def test_gb200_gpus_share_serials_and_keep_their_own_uuids_and_modules() -> None:
    entries = parse(xml_document(gb200_gpus())).entries

    assert [entry.serial for entry in entries] == [serial_of(0, at) for at in (0, 0, 1, 1)]
    assert len({entry.uuid for entry in entries}) == 4
    assert [entry.module_id for entry in entries] == ["2", "1", "4", "3"]
    assert entries[0].slot == "0008:01:00.0"
    assert entries[0].readings["chassis_serial"] == "1821900000017"


def test_a_geforce_card_has_no_serial_and_nothing_to_check() -> None:
    inventory = parse(xml_document(geforce_gpus()))

    (entry,) = inventory.entries
    assert (entry.serial, entry.part_number) == ("N/A", None)
    assert entry.readings["memory_temperature_celsius"] is None
    assert status_of(inventory, "gpu.ecc") is CheckStatus.NOT_APPLICABLE
    assert status_of(inventory, "gpu.row_remap") is CheckStatus.NOT_APPLICABLE


@pytest.mark.parametrize("serial", ["N/A", "[N/A]", "0000000000000", "[Unknown Error]", "REDACTED", "0324519000011"])
def test_serials_are_carried_to_the_character(serial: str) -> None:
    assert parse(h100_xml(1, serial=lambda _: serial)).entries[0].serial == serial


def test_the_part_number_of_an_old_driver_is_the_one_it_calls_the_gpus() -> None:
    assert parse(xml_document(v100_gpus(1), version=11)).entries[0].part_number == "900-2G503-0310-000"
    assert parse(xml_document(geforce_gpus())).entries[0].part_number is None


def test_eight_gpus_are_told_apart_by_the_domain_alone() -> None:
    assert [entry.slot for entry in parse(xml_document(v100_gpus(3))).entries] == [
        "0001:00:00.0",
        "0002:00:00.0",
        "0003:00:00.0",
    ]


def test_a_lost_gpu_stays_in_the_list_and_passes_nothing() -> None:
    inventory = parse(h100_xml(lost={3}))

    assert len(inventory.entries) == 8
    assert inventory.entries[3].serial == serial_of(0, 3)
    assert status_of(inventory, "gpu.responding", 3) is CheckStatus.FAIL
    for name in ("gpu.ecc", "gpu.row_remap", "gpu.recovery_action"):
        assert status_of(inventory, name, 3) is CheckStatus.UNKNOWN
        assert status_of(inventory, name, 2) is CheckStatus.PASS


def test_a_lost_gpu_without_identity_is_known_by_its_place() -> None:
    machine = change(h100_gpus(2, lost={1}), 1, serial="GPU is lost", uuid="GPU is lost", model="GPU is lost")
    text = xml_document(machine).replace(b"<pci_bus_id>00000000:2A:00.0", b"<pci_bus_id>GPU is lost")

    inventory = parse(text)

    entry = inventory.entries[1]
    assert (entry.slot, entry.model, entry.serial) == ("0000:2a:00.0", None, "GPU is lost")
    assert status_of(inventory, "gpu.responding", 1) is CheckStatus.FAIL


def test_err_is_never_a_model_and_the_gpu_does_not_respond() -> None:
    inventory = parse(xml_document(change(h100_gpus(1), 0, model="ERR!", temperature="ERR!")))

    assert inventory.entries[0].model is None
    assert inventory.entries[0].readings["temperature_celsius"] is None
    assert status_of(inventory, "gpu.responding") is CheckStatus.FAIL
    assert status_of(inventory, "gpu.ecc") is CheckStatus.UNKNOWN


def test_one_unreadable_field_is_no_lost_gpu() -> None:
    inventory = parse(h100_xml(1).replace(b"<fan_speed>N/A", b"<fan_speed>Unknown Error"))

    assert status_of(inventory, "gpu.responding") is CheckStatus.PASS


def test_a_process_cannot_make_its_gpu_look_lost() -> None:
    inventory = parse(h100_xml(1).replace(b"/usr/bin/train", b"GPU is lost"))

    assert status_of(inventory, "gpu.responding") is CheckStatus.PASS


@pytest.mark.parametrize("block", ["ecc_errors", "remapped_rows"])
def test_a_missing_health_block_is_unknown(block: str) -> None:
    text = h100_xml(1).decode()
    start, end = text.index(f"<{block}>"), text.index(f"</{block}>") + len(f"</{block}>")

    inventory = parse((text[:start] + text[end:]).encode())

    name = "gpu.ecc" if block == "ecc_errors" else "gpu.row_remap"
    assert status_of(inventory, name) is CheckStatus.UNKNOWN


def test_pending_and_failed_remaps_fail_with_clean_counters() -> None:
    inventory = parse(h100_xml(pending={0}, failed={1}))

    codes = {check.device: check.code for check in inventory.checks if check.status is CheckStatus.FAIL}
    assert codes == {"0000:18:00.0": "gpu.row_remap.pending", "0000:2a:00.0": "gpu.row_remap.failed"}


def test_recovery_actions_fail_and_old_drivers_have_none() -> None:
    asked = parse(xml_document(change(h100_gpus(1), 0, recovery_action="Reset")))
    old = parse(xml_document(change(h100_gpus(1), 0, recovery_action=None)))

    assert status_of(asked, "gpu.recovery_action") is CheckStatus.FAIL
    assert status_of(old, "gpu.recovery_action") is CheckStatus.NOT_APPLICABLE


def test_mig_slices_belong_to_their_gpu() -> None:
    names = ("MIG-3f0e6a52-0000-5000-8000-000000000001", "MIG-3f0e6a52-0000-5000-8000-000000000002")

    (entry,) = parse(xml_document(change(h100_gpus(1), 0, slices=names))).entries

    assert entry.slices == names
    assert (entry.readings["mig_devices"], entry.readings["mig_current"]) == (2, "Enabled")


def test_fewer_gpus_than_attached_are_a_partial_list() -> None:
    inventory = parse(h100_xml(without={4}))

    assert inventory.is_partial
    assert len(inventory.entries) == 7


def test_a_slot_that_stands_twice_is_carried_as_it_is() -> None:
    machine = h100_gpus(2)

    assert len(parse(xml_document([*machine, machine[0]])).entries) == 3


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    ],
    ids=["utf-8 with mark and crlf", "utf-16 from a Windows shell"],
)
def test_windows_encodings_are_read(encode: Callable[[str], bytes]) -> None:
    plain = h100_xml()

    assert parse(encode(plain.decode())) == parse(plain)


def test_an_inforom_warning_after_the_document_is_a_failure_of_its_gpu() -> None:
    line = "WARNING: infoROM is corrupted at gpu 0000:5D:00.0"
    text = h100_xml() + f"{line}\n".encode()

    (failure,) = parse(text).failures

    assert (failure.code, failure.slot, failure.message) == ("gpu.inforom", "0000:5d:00.0", line)
    assert parse(text).failures[0].failure_id == failure.failure_id
    later = parse(h100_xml(stamp="Wed Sep  2 07:20:30 2026") + line.encode()).failures[0]
    elsewhere = parse(h100_xml(node=2) + line.encode()).failures[0]
    assert len({failure.failure_id, later.failure_id, elsewhere.failure_id}) == 3


def test_warnings_before_the_document_are_kept_as_notices() -> None:
    (notice,) = parse(b"Warning: persistence mode is disabled on device 0.\n" + h100_xml()).warnings

    assert notice.code == "tool_warning"


def test_an_unreachable_gpu_beside_the_document_is_an_entry_with_a_place_only() -> None:
    line = b"Unable to determine the device handle for GPU 0000:18:00.0: Unknown Error\n"

    new = parse(line * 2 + h100_xml(without={0}))
    listed = parse(line + h100_xml())

    assert (new.entries[0].slot, new.entries[0].serial, new.entries[0].uuid) == ("0000:18:00.0", None, None)
    assert status_of(new, "gpu.responding") is CheckStatus.FAIL
    assert len(new.entries) == len(listed.entries) == 8
    assert status_of(listed, "gpu.responding") is CheckStatus.FAIL


def entity_bomb() -> bytes:
    levels = "".join(f'<!ENTITY e{at} "{f"&e{at - 1};" * 10}">' for at in range(1, 12))
    text = f'<!DOCTYPE nvidia_smi_log [<!ENTITY e0 "x">{levels}]><nvidia_smi_log><timestamp>&e11;</timestamp>'
    return f"{text}</nvidia_smi_log>".encode()


REFUSED = {
    "empty": (b"", "empty"),
    "blank": (b" \n\n", "empty"),
    "not text": (b"\x80\x81" * 9, "not text"),
    "broken utf-8": (h100_xml().replace(b"NVIDIA H100", b"NVIDIA \xff"), "not text"),
    "zero bytes": (h100_xml().replace(b"H100", b"H\x0000"), "zero bytes"),
    "json": (b'{"devices": []}', "JSON"),
    "another tool": (b"bash: nvidia-smi: command not found", "nvidia_smi_log"),
    "another root": (b"<nvidia_smi_logs><nvidia_smi_log></nvidia_smi_log>", "root"),
    "no driver": (b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "did not list any"),
    "html-escaped": (h100_xml().replace(b"<", b"&lt;").replace(b">", b"&gt;"), "HTML-escaped"),
    "html blank": (h100_xml().replace(b"NVIDIA H100", b"NVIDIA&nbsp;H100"), "well-formed"),
    "entities": (entity_bomb(), "entities"),
    "external entity": (
        b'<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/hostname">]><nvidia_smi_log>&x;</nvidia_smi_log>',
        "entities",
    ),
    "two documents": (h100_xml() * 2, "two documents"),
    "log around it": (b"run 17 at noon\n" + h100_xml(), "beside the document"),
    "log after it": (h100_xml() + b"exit code 0\n", "beside the document"),
    "unbalanced": (h100_xml().replace(b"</gpu>", b"", 1), "well-formed"),
    "garbage bus id": (h100_xml().replace(b"00000000:18:00.0", b"0000:zz:00.0"), "0000:zz:00.0"),
    "says nothing": (b"<nvidia_smi_log></nvidia_smi_log>", "how many"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_whole_and_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        parse(data)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.77, 0.95, 0.999])
def test_a_cut_off_document_is_refused(share: float) -> None:
    text = h100_xml().rstrip()

    with pytest.raises(PartUnreadable, match=r"cut off|nvidia_smi_log"):
        parse(text[: int(len(text) * share)])
