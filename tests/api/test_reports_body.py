# SPDX-License-Identifier: Apache-2.0
"""Which JSON is a report, and is every wrong field of one that is not named?"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from api.reports_body import ERRORS_SHOWN, report_of
from api.reports_values import ENTRIES_MAX
from api.text import read_json
from registry.domain.errors import InvalidField, MalformedBody
from registry.domain.reports import CheckStatus, Report

MINIMAL = {"report_id": "r-1", "boot_id": "b-1", "provider_id": "aws:///us-east-1a/i-0abc", "profile": "p5.48xlarge"}
GPU = {"kind": "gpu", "vendor": "nvidia", "serial": "0322218049033", "uuid": "GPU-1", "slot": "00000000:53:00.0"}


def read(**changes: Any) -> Report:
    return report_of({**MINIMAL, **changes}, "node-a", b"raw")


def refusal(body: Any) -> dict[str, str]:
    with pytest.raises(InvalidField) as refused:
        report_of(body, "node-a", b"")
    return {error.pointer: error.detail for error in refused.value.errors}


def device_refusal(**changes: Any) -> dict[str, str]:
    return refusal({**MINIMAL, "devices": [{**GPU, **changes}]})


def test_a_report_needs_four_fields_and_no_list() -> None:
    report = read()

    assert (report.node, report.report_id, report.boot_id) == ("node-a", "r-1", "b-1")
    assert report.entries is None
    assert report.covers is None
    assert report.body_digest == hashlib.sha256(b"raw").hexdigest()


def test_an_empty_list_says_that_nothing_is_there() -> None:
    report = read(devices=[], covers=["gpu", "efa"])

    assert report.entries == ()
    assert report.covers == {"gpu", "efa"}


def test_a_device_is_kept_to_the_character_with_its_slot_in_one_form() -> None:
    firmware = {"vbios": "96.00.5E.00.01"}
    readings = {"temperature_celsius": 41.5, "mig_mode": "Disabled", "ecc": True, "lost": None}

    (entry,) = read(devices=[{**GPU, "firmware": firmware, "readings": readings, "part_number": None}]).entries or ()

    assert (entry.serial, entry.slot, entry.part_number) == ("0322218049033", "0000:53:00.0", None)
    assert entry.firmware == firmware
    assert entry.readings == readings


def test_a_placeholder_is_no_mistake() -> None:
    (entry,) = read(devices=[{**GPU, "serial": "[N/A]", "uuid": ""}]).entries or ()

    assert (entry.serial, entry.uuid) == ("[N/A]", "")


def test_times_are_read_as_utc() -> None:
    assert read(sent_at="2026-11-29T13:00:00.5+01:00").sent_at == datetime(2026, 11, 29, 12, 0, 0, 500_000, UTC)


def test_a_check_names_its_device_by_the_one_form_of_the_slot() -> None:
    (check,) = read(checks=[{"name": "gpu.ecc", "status": "fail", "device": "53:00.0", "message": "two\nlines"}]).checks

    assert check.status is CheckStatus.FAIL
    assert check.device == "0000:53:00.0"


def test_a_host_is_kept_by_source() -> None:
    host = {"dmi": {"serial": "S1", "uuid": None}, "chassis": {}}

    assert read(host=host).host == {"dmi": {"serial": "S1"}, "chassis": {}}


@pytest.mark.parametrize("value", [0, 17, 5.0])
def test_a_sequence_number_is_whole(value: float) -> None:
    assert read(seq=value).seq == value


@pytest.mark.parametrize("body", [None, [], "text", 1, True])
def test_what_is_no_object_is_no_report(body: Any) -> None:
    assert refusal(body) == {"": "must be a JSON object"}


def test_every_missing_field_is_named() -> None:
    assert refusal({}) == {f"/{name}": "is required" for name in MINIMAL}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("report_id", value) for value in ("", 7, "a\nb", "a" * 257, "\ud800", "a\x00", [], "\u202e")],
        *[("run_id", value) for value in (1, "", {})],
        *[("seq", value) for value in (-1, 1.5, True, "1", 2**63)],
        *[("sent_at", value) for value in ("2026-11-29T12:00:00", "yesterday", 1, "1969-01-01T00:00:00Z")],
        *[("finished_at", value) for value in ("0001-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z")],
        *[("devices", value) for value in ({}, "x", [{}] * (ENTRIES_MAX + 1))],
        *[("covers", value) for value in ("gpu", 1)],
        *[("host", value) for value in ([], "dmi")],
        *[("surprise", value) for value in (1, None)],
        ("a~/b", 1),
    ],
)
def test_a_wrong_field_is_named(field: str, value: Any) -> None:
    assert list(refusal({**MINIMAL, field: value})) == [f"/{field.replace('~', '~0').replace('a~0/', 'a~0~1')}"]


def test_a_number_is_no_serial() -> None:
    assert device_refusal(serial=322218049033) == {"/devices/0/serial": "must be text in quotation marks"}


def test_an_unreadable_slot_is_shown() -> None:
    assert "'slot five'" in device_refusal(slot="slot five")["/devices/0/slot"]


@pytest.mark.parametrize("name", ["MIG-GPU-1234/1/0", "mig-5e0b7d4c-5f4c-5d3e-8f6a-000000000001"])
def test_a_slice_is_no_device(name: str) -> None:
    refused = device_refusal(uuid=name)["/devices/0/uuid"]

    assert name in refused
    assert "a slice, not a device" in refused


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("kind", "tpu", "/kind"),
        ("kind", None, "/kind"),
        ("kind", ["gpu"], "/kind"),
        ("vendor", "NVIDIA", "/vendor"),
        ("vendor", "nvidia\n", "/vendor"),
        ("vendor", None, "/vendor"),
        ("slot", 53, "/slot"),
        ("model", "x" * 257, "/model"),
        ("name", "a\x1bb", "/name"),
        ("firmware", [], "/firmware"),
        ("firmware", {"vbios": 1}, "/firmware/vbios"),
        ("firmware", {"": "1"}, "/firmware"),
        ("readings", {"a/b": []}, "/readings/a~1b"),
        ("readings", {"t": float("inf")}, "/readings/t"),
        ("readings", {"t": 2**64}, "/readings/t"),
        ("readings", {"t": "\ud800"}, "/readings/t"),
        ("colour", "red", "/colour"),
    ],
)
def test_a_wrong_field_of_a_device_is_named(field: str, value: Any, pointer: str) -> None:
    assert list(device_refusal(**{field: value})) == [f"/devices/0{pointer}"]


@pytest.mark.parametrize(
    ("check", "pointer"),
    [
        ({"name": "gpu ecc"}, "/name"),
        ({"name": None}, "/name"),
        ({"status": "ok"}, "/status"),
        ({"status": []}, "/status"),
        ({"device": 5}, "/device"),
        ({"message": "\x00"}, "/message"),
        ({"severity": "x"}, "/severity"),
    ],
)
def test_a_wrong_field_of_a_check_is_named(check: dict[str, Any], pointer: str) -> None:
    body = {**MINIMAL, "checks": [{"name": "gpu.ecc", "status": "pass", **check}]}

    assert list(refusal(body)) == [f"/checks/0{pointer}"]


def test_an_entry_that_is_no_object_is_named() -> None:
    assert list(refusal({**MINIMAL, "devices": [1], "checks": ["x"], "covers": ["tpu"]})) == [
        "/covers/0",
        "/devices/0",
        "/checks/0",
    ]


@pytest.mark.parametrize(
    ("host", "pointer"),
    [({"bios": {}}, "/host/bios"), ({"dmi": 1}, "/host/dmi"), ({"dmi": {"sku": "x"}}, "/host/dmi/sku")],
)
def test_a_wrong_host_is_named(host: Any, pointer: str) -> None:
    assert list(refusal({**MINIMAL, "host": host})) == [pointer]


def test_a_thousand_mistakes_are_told_in_short() -> None:
    with pytest.raises(InvalidField) as refused:
        report_of({**MINIMAL, "devices": [{**GPU, "serial": 1}] * 1000}, "node-a", b"")

    assert len(refused.value.errors) == ERRORS_SHOWN
    assert refused.value.extra["errors_left_out"] == 1000 - ERRORS_SHOWN


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b"[NaN]",
        b"[Infinity]",
        b"\xff",
        b"{",
        b"",
        b"[" * 100_000,
        b"9" * 5000,
        "{}".encode("utf-16"),
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_strict_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedBody):
        read_json(raw)


def test_strict_json_is_read() -> None:
    assert read_json(json.dumps({"ä": [1, 1.5, None, "\u2028"]}).encode()) == {"ä": [1, 1.5, None, "\u2028"]}
