# SPDX-License-Identifier: Apache-2.0
"""Are printed words told from values, and is each value kept in one form?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from registry.domain.identifiers import (
    Identifier,
    IdentifierType,
    Scope,
    identifiers_of,
    is_mac,
    is_mig_name,
    is_placeholder,
    mac_of_gid,
    normalise_gid,
    normalise_mac,
    normalise_slot,
    parse_slice,
    usable_guid,
    usable_module_id,
    usable_serial,
    usable_text,
    usable_unique_id,
    usable_uuid,
    why_unusable,
)
from registry.domain.reports import DeviceEntry

UUID = "GPU-aaaa0001-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        (" 3b:00.0 ", "0000:3b:00.0"),
        ("0000:3b.00.0", "0000:3b:00.0"),
        ("0000:3b:00", "0000:3b:00.0"),
        ("3b:00", "0000:3b:00.0"),
        ("000B:00:00", "000b:00:00.0"),
        ("00000001:00:00.0", "0001:00:00.0"),
        ("1:00:00.0", "0001:00:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("FFFFFFFF:01:1f.7", "ffffffff:01:1f.7"),
        ("0000000000000001:00:00.0", "0001:00:00.0"),
    ],
)
def test_a_bus_id_has_one_form(text: str, slot: str) -> None:
    assert normalise_slot(text) == slot


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "N/A", "[N/A]", "0000:zz:00.0", ":07:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00.00", "3b"),
        *("100000000:3b:00.0", "0000:3b:00.0 extra", "0000-3b-00.0", "0000:3b:00.0\n0000:3c:00.0", "\u0663b:00.0"),
    ],
)
def test_a_text_that_is_no_bus_id_is_none(text: str | None) -> None:
    assert normalise_slot(text) is None


def test_eight_places_that_only_the_domain_tells_apart_stay_eight() -> None:
    domains = ["1", "2", "3", "4", "B", "C", "D", "E"]

    slots = {normalise_slot(f"{domain:0>8}:00:00.0") for domain in domains}

    assert len(slots) == 8
    assert normalise_slot("000B:00:00") in slots


@pytest.mark.parametrize(
    "text",
    [
        *(
            None,
            "",
            "  ",
            "N/A",
            "n/a",
            "[N/A]",
            " [n/a] ",
            "[Unknown Error]",
            "Unknown Error",
            "ERR!",
            "[Not Supported]",
        ),
        *("REDACTED", "redacted", "<redacted>", "(none)", "None", "null", "-", "Unknown", "[GPU is lost]"),
        *("To be filled by O.E.M.", "TO BE FILLED BY O.E.M", "  to be   filled by o.e.m. ", "To Be Filled By OEM"),
        *("Default string", "default string.", "Not Specified", "System Serial Number", "Chassis Serial Number"),
        *("0", "0000000000000", "0x0000", "00:00:00", "XXXXXXXXXXXXX", "1650xxxxxxxxx", "*************"),
        *("0123456789012", "1234567890123", "0123456789", "1.65E+12", "1,65e12", "165e+10"),
    ],
)
def test_a_gap_filler_is_no_serial(text: str | None) -> None:
    assert usable_serial(text) is None
    assert why_unusable("serial", text) is not None


@pytest.mark.parametrize(
    "text",
    ["0000000000001", "0322218049033", "1650000000001", "12345", "MT2230J14118", "ABCdef", "1E12", "X1", "Y1", "N/A-7"],
)
def test_a_serial_is_kept_to_the_character(text: str) -> None:
    assert usable_serial(f"  {text} ") == text
    assert why_unusable(IdentifierType.SERIAL, text) is None


@pytest.mark.parametrize(
    ("text", "uuid"),
    [
        (UUID, UUID),
        (UUID.upper(), UUID),
        (f"  {UUID} ", UUID),
        ("gpu-AAAA0001-0000-0000-0000-000000000001", UUID),
        ("aaaa0001-0000-0000-0000-000000000001", UUID),
        ("AAAA0001000000000000000000000001", UUID),
        ("GPU-11111111-1111-1111-1111-111111111111", "GPU-11111111-1111-1111-1111-111111111111"),
        ("GPU-8dff0b7e1a2b3c4d", "GPU-8dff0b7e1a2b3c4d"),
        (" some-Makers-Own ", "some-Makers-Own"),
    ],
)
def test_a_uuid_has_one_form(text: str, uuid: str) -> None:
    assert usable_uuid(text) == uuid


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "N/A", "[N/A]", "ERR!", "[GPU is lost]", "GPU-XX", "GPU-", "GPU-N/A"),
        *("GPU-00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"),
        *("GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        *("GPU-12345678-aaaa-bbbb-cccc-0123456789ab", "GPU-12345678-AAAA-bbbb-cccc-0123456789cd"),
        *("MIG-aaaa0001-0000-0000-0000-000000000001", f"MIG-{UUID}/7/0", "mig-whatever"),
    ],
)
def test_what_names_no_unit_is_no_uuid(text: str | None) -> None:
    assert usable_uuid(text) is None
    assert why_unusable("uuid", text) is not None


@pytest.mark.parametrize(
    ("text", "unique_id"),
    [
        ("0x67c6000000000001", "0x67c6000000000001"),
        ("67C6000000000001", "0x67c6000000000001"),
        ("0x2f048617326b1ea", "0x2f048617326b1ea"),
        ("02f048617326b1ea", "0x2f048617326b1ea"),
        ("1234", "1234"),
        ("N/A", None),
        ("0x0", None),
        (None, None),
    ],
)
def test_a_unique_id_is_one_number_however_it_is_padded(text: str | None, unique_id: str | None) -> None:
    assert usable_unique_id(text) == unique_id


def test_zero_is_a_module_id_and_no_value_of_anything_else() -> None:
    assert usable_module_id(" 0 ") == "0"
    assert usable_module_id("N/A") is None
    assert why_unusable("module_id", "0") is None
    assert usable_text("0") is None
    assert not is_placeholder("0")
    assert is_placeholder("Default String")
    assert usable_text(" X1 ") == "X1"


@pytest.mark.parametrize("text", ["02:AB:CD:00:00:01", "02-ab-cd-00-00-01", "02abcd000001", "02ab.cd00.0001"])
def test_a_mac_has_one_form(text: str) -> None:
    assert normalise_mac(text) == "02:ab:cd:00:00:01"


@pytest.mark.parametrize("text", [None, "", "N/A", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "02:ab:cd:00:00"])
def test_what_is_no_mac_is_none(text: str | None) -> None:
    assert normalise_mac(text) is None


def test_a_gid_has_one_form_and_gives_the_mac_inside_it() -> None:
    gid = normalise_gid(" FE80:0000:0000:0000:0001:02FF:FE03:0004 ")

    assert gid == "fe80::1:2ff:fe03:4"
    assert not is_mac(gid)
    assert mac_of_gid(gid) == "02:01:02:03:00:04"
    assert mac_of_gid("fe80::1234") is None


@pytest.mark.parametrize(
    "text", [None, "", "::", "fe80::", "fe80:0000:0000:0000:0000:0000:0000:0000", "N/A", "10.0.0.1"]
)
def test_a_gid_without_an_interface_is_none(text: str | None) -> None:
    assert normalise_gid(text) is None


def test_a_guid_of_zeros_is_never_a_key() -> None:
    assert usable_guid("0000:0000:0000:0000") is None
    assert usable_guid("0x0000000000000000") is None
    assert usable_guid("N/A") is None
    assert usable_guid("0012:34FF:fe56:789a") == usable_guid("0x001234fffe56789a") == "0012:34ff:fe56:789a"


def test_an_old_slice_name_gives_its_parent_and_a_new_one_none() -> None:
    old = parse_slice("MIG-GPU-AAAA0001-0000-0000-0000-000000000001/7/0")
    new = parse_slice(" MIG-bbbb0001-0000-0000-0000-000000000001 ")

    assert old is not None
    assert old.parent_uuid == UUID
    assert old.slice == "MIG-GPU-AAAA0001-0000-0000-0000-000000000001/7/0"
    assert new is not None
    assert new.parent_uuid is None
    assert new.slice == "MIG-bbbb0001-0000-0000-0000-000000000001"
    assert parse_slice(UUID) is None
    assert parse_slice(None) is None
    assert is_mig_name("mig-x")


def test_an_entry_gives_all_it_printed_usable_or_not() -> None:
    entry = DeviceEntry(
        kind="gpu", vendor="nvidia", serial=" N/A ", uuid=UUID.upper(), module_id="0", slices=("MIG-bbbb",)
    )

    assert identifiers_of(entry) == (
        Identifier("gpu", "nvidia", IdentifierType.SERIAL, " N/A ", Scope.HARDWARE, is_usable=False),
        Identifier("gpu", "nvidia", IdentifierType.UUID, UUID, Scope.HARDWARE, is_usable=True),
        Identifier("gpu", "nvidia", IdentifierType.MODULE_ID, "0", Scope.HARDWARE, is_usable=True),
        Identifier("gpu", "nvidia", IdentifierType.SLICE, "MIG-bbbb", Scope.PLACE, is_usable=True),
    )


def test_an_interface_goes_where_the_network_puts_it() -> None:
    entry = DeviceEntry(kind="efa", vendor="amazon", mac="02abcd000001", gid="fe80::", node_guid="0000:0000:0000:0000")

    found = {identifier.type: identifier for identifier in identifiers_of(entry)}

    assert {identifier.scope for identifier in found.values()} == {Scope.INTERFACE}
    assert [type_ for type_, identifier in found.items() if identifier.is_usable] == [IdentifierType.MAC]


def test_only_hardware_identifiers_name_something() -> None:
    naming = {type_ for type_ in IdentifierType if type_.names}

    assert naming == {"serial", "vpd_serial", "uuid", "unique_id", "ueid"}
    assert {type_.scope for type_ in naming} == {Scope.HARDWARE}


def test_the_reason_tells_what_is_wrong() -> None:
    assert why_unusable("serial", None) == "is absent"
    assert why_unusable("serial", "0000000000000") == "is all zeros"
    assert why_unusable("mac", "rubbish") == "is not readable as a mac"
    assert why_unusable("slice", "MIG-1") is None
    with pytest.raises(ValueError, match="colour"):
        why_unusable("colour", "red")


CORPUS = Path(os.environ.get("PRATIQUE_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


@pytest.mark.skipif(not (CORPUS / "EXPECTED.json").exists(), reason="the corpus of public captures is not here")
def test_captures_are_judged_as_people_judged_them() -> None:
    expected = json.loads((CORPUS / "EXPECTED.json").read_text())
    devices = [(name, device) for name, one in expected.items() for device in one.get("devices") or ()]
    judged = [(name, device) for name, device in devices if "serial_usable" in device]

    wrong = [
        (name, device["serial"], device["uuid"])
        for name, device in judged
        if (usable_serial(device["serial"]) is not None) != device["serial_usable"]
        or (usable_uuid(device["uuid"]) is not None) != device["uuid_usable"]
    ]

    assert len(judged) > 100
    assert wrong == []
