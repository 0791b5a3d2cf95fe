# SPDX-License-Identifier: Apache-2.0
"""Which report do raw outputs and fields make, and is a part that cannot be read refused by its name?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pytest
from werkzeug.test import EnvironBuilder

from api.report_parts import BOOT_PART, COMMANDS, EFA_PARTS, FINDING_PARTS, GPU_PARTS
from api.reports_multipart import Parts, read_parts, report_of_parts
from registry.domain.errors import InvalidField, MalformedBody, PartUnreadable
from registry.domain.reports import (
    CheckResult,
    CheckStatus,
    DeviceEntry,
    Inventory,
    Notice,
    Report,
    ReportedFailure,
)
from tests.collectors.adapters import Efa, ibv_devinfo

SCALARS = {"report_id": "r-1", "boot_id": "b-1", "provider_id": "i-1", "profile": "p5.48xlarge"}
EFA = {"kind": "efa", "vendor": "amazon", "slot": "0000:50:00.0", "name": "rdmap80s0"}
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LIST = b"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-6a7c1d3e-0f5b-4a49-8f0e-0123456789ab)\n"
FIRST, SECOND = (
    DeviceEntry(kind="gpu", vendor="nvidia", slot=f"0000:{bus}:00.0", serial=serial, uuid=f"GPU-{bus}")
    for bus, serial in (("53", "1654000000001"), ("64", "1654000000002"))
)


def report(parts: dict[str, Any]) -> Report:
    raw = {name: value if isinstance(value, bytes) else str(value).encode() for name, value in parts.items()}
    return report_of_parts(
        Parts({**{name: text.encode() for name, text in SCALARS.items()}, **raw}, "digest"), "node-a", NOW
    )


def refusal(parts: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidField) as refused:
        report(parts)
    return {error.pointer: error.detail for error in refused.value.errors}


def taken_apart(data: dict[str, Any]) -> Parts:
    environ = EnvironBuilder(method="POST", data=data, content_type="multipart/form-data").get_environ()
    boundary = environ["CONTENT_TYPE"].partition("boundary=")[2].strip(chr(34))
    return read_parts(environ["wsgi.input"], boundary, int(environ["CONTENT_LENGTH"]))


def speak(monkeypatch: pytest.MonkeyPatch, **inventories: Inventory) -> None:
    """Let a part say this instead of what its parser would read in it."""
    parsers = {name: (lambda _, said=said: said) for name, said in inventories.items()}
    monkeypatch.setattr(
        "api.reports_multipart.GPU_PARTS", {name: parsers.get(name, GPU_PARTS[name]) for name in GPU_PARTS}
    )


def test_fields_alone_make_the_same_report_as_json() -> None:
    fields = {
        "seq": "17",
        "devices": json.dumps([EFA]),
        "covers": '["efa"]',
        "checks": '[{"name":"efa.link","status":"pass"}]',
        "host": '{"dmi": {"serial": "S1"}}',
        "sent_at": "2026-11-29T12:00:00Z",
        "zone": "",
    }

    made = report(fields)

    assert made.seq == 17
    assert made.zone is None
    assert made.covers == {"efa"}
    assert [entry.name for entry in made.entries or ()] == ["rdmap80s0"]
    assert made.checks == (CheckResult(name="efa.link", status=CheckStatus.PASS),)
    assert made.host == {"dmi": {"serial": "S1"}}


def test_a_raw_part_speaks_for_gpus_and_json_for_the_rest() -> None:
    made = report({"nvidia_smi_list": LIST, "devices": json.dumps([EFA])})

    assert [entry.kind for entry in made.entries or ()] == ["gpu", "efa"]
    assert made.covers == {"gpu", "efa"}
    assert made.body_digest == "digest"


def test_a_raw_part_alone_says_nothing_of_other_kinds() -> None:
    assert report({"nvidia_smi_list": LIST}).covers == {"gpu"}


def test_covers_may_say_that_there_are_no_adapters() -> None:
    assert report({"nvidia_smi_list": LIST, "covers": '["efa"]'}).covers == {"gpu", "efa"}


def test_a_gpu_beside_raw_gpu_output_is_refused() -> None:
    gpu = {"kind": "gpu", "vendor": "nvidia", "uuid": "GPU-1"}

    assert list(refusal({"nvidia_smi_list": LIST, "devices": json.dumps([EFA, gpu])})) == ["/devices/1"]


def test_every_part_has_a_reader_and_is_described() -> None:
    assert set(COMMANDS) == {*GPU_PARTS, *EFA_PARTS, *FINDING_PARTS, BOOT_PART}


def test_an_unknown_part_is_named_with_the_known_ones() -> None:
    assert "nvidia_smi_xml" in refusal({"nvidia-smi-xml": b"x"})["/nvidia-smi-xml"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("content", [b"", b"No devices were found\n", b"\x00", b"\xff\xfe\xff", b"<html></html>"])
def test_a_part_that_cannot_be_read_is_named(name: str, content: bytes) -> None:
    with pytest.raises(PartUnreadable) as refused:
        report({name: content})

    assert [error.pointer for error in refused.value.errors] == [f"/{name}"]


@pytest.mark.parametrize(
    ("field", "content"),
    [("devices", b"{"), ("devices", b"{}"), ("covers", b"gpu"), ("seq", b"x"), ("seq", b"1.5"), ("run_id", b"\xff")],
)
def test_a_wrong_field_is_named(field: str, content: bytes) -> None:
    assert list(refusal({field: content})) == [f"/{field}"]


def test_the_output_that_says_most_speaks_and_the_others_add_what_they_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    fail, unknown, ok = CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.PASS
    rich = Inventory(
        kind="gpu",
        entries=(FIRST,),
        checks=(CheckResult("gpu.ecc", ok, FIRST.slot),),
        stamp="noon",
        warnings=(Notice("unknown_version", "v14"),),
    )
    poor = Inventory(
        kind="gpu",
        entries=(FIRST, SECOND),
        checks=(
            CheckResult("gpu.ecc", unknown, FIRST.serial),
            CheckResult("gpu.row_remap", fail, FIRST.uuid),
            CheckResult("gpu.row_remap", fail, SECOND.uuid),
        ),
        failures=(ReportedFailure("f-1", "gpu.inforom", device="x"),),
    )
    speak(monkeypatch, nvidia_smi_xml=rich, nvidia_smi_csv=poor)

    made = report({"nvidia_smi_csv": b"x", "nvidia_smi_xml": b"x"})

    assert made.entries == (FIRST,)
    assert made.checks == (CheckResult("gpu.ecc", ok, FIRST.slot), CheckResult("gpu.row_remap", fail, FIRST.slot))
    assert [(failure.failure_id, failure.node) for failure in made.failures] == [("f-1", "node-a")]
    assert made.stamps == ("noon",)
    assert [notice.code for notice in made.warnings] == ["unknown_version"]


@pytest.mark.parametrize(("attached", "partial"), [(1, frozenset()), (None, frozenset()), (8, frozenset({"gpu"}))])
def test_a_list_with_fewer_than_attached_is_partial(
    monkeypatch: pytest.MonkeyPatch, attached: int | None, partial: frozenset[str]
) -> None:
    speak(monkeypatch, nvidia_smi_xml=Inventory(kind="gpu", entries=(FIRST,), attached=attached))

    assert report({"nvidia_smi_xml": b"x"}).partial == partial


@pytest.mark.parametrize(
    ("csv", "what"),
    [
        ("serial, uuid, pci.bus_id\n1654000000002, GPU-64, 00000000:53:00.0\n", "UUID GPU-64"),
        ("uuid, pci.bus_id\nGPU-64, 00000000:53:00.0\n", "UUID GPU-64"),
        ("serial, pci.bus_id\n1654000000002, 00000000:53:00.0\n", "serial 1654000000002"),
    ],
)
def test_lists_that_show_different_hardware_in_one_slot_are_refused(
    monkeypatch: pytest.MonkeyPatch, csv: str, what: str
) -> None:
    speak(monkeypatch, nvidia_smi_xml=Inventory(kind="gpu", entries=(FIRST, SECOND)))

    said = refusal({"nvidia_smi_xml": b"x", "nvidia_smi_csv": csv.encode()})

    assert {"/nvidia_smi_csv"} == said.keys()
    assert what in said["/nvidia_smi_csv"]
    assert "slot 0000:53:00.0, where nvidia_smi_xml" in said["/nvidia_smi_csv"]


@pytest.mark.parametrize(
    "csv",
    [
        "serial, uuid, pci.bus_id\n1654000000001, GPU-53, 00000000:53:00.0\n",
        "serial, uuid, pci.bus_id\n[N/A], GPU-53, 00000000:53:00.0\n",
        "serial, uuid, pci.bus_id\n0000000000000, [Unknown Error], 00000000:53:00.0\n",
        "serial, pci.bus_id\n1654000000003, 00000000:75:00.0\n",
    ],
)
def test_lists_that_show_the_same_or_less_agree(monkeypatch: pytest.MonkeyPatch, csv: str) -> None:
    speak(monkeypatch, nvidia_smi_xml=Inventory(kind="gpu", entries=(FIRST, SECOND)))

    assert report({"nvidia_smi_xml": b"x", "nvidia_smi_csv": csv.encode()}).entries == (FIRST, SECOND)


def test_what_a_list_saw_is_joined_by_the_uuid_before_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = DeviceEntry(kind="gpu", vendor="nvidia", slot="0000:64:00.0", uuid=FIRST.uuid)
    bad = CheckResult("gpu.ecc", CheckStatus.FAIL, moved.slot, "gpu.ecc.dbe")
    rich = Inventory(kind="gpu", entries=(FIRST, DeviceEntry(kind="gpu", vendor="nvidia", slot="0000:64:00.0")))
    speak(monkeypatch, nvidia_smi_xml=rich, nvidia_smi_csv=Inventory(kind="gpu", entries=(moved,), checks=(bad,)))

    made = report({"nvidia_smi_xml": b"x", "nvidia_smi_csv": b"x"})

    assert [one.device for one in made.checks if one.code] == [FIRST.slot]


def test_a_part_may_come_as_a_file_or_as_a_field_in_any_order() -> None:
    as_file = taken_apart({"nvidia_smi_list": (BytesIO(LIST), "gpus.txt"), "report_id": "r-1"})
    as_field = taken_apart({"report_id": "r-1", "nvidia_smi_list": LIST.decode()})

    assert as_file == as_field
    assert as_file.raw["nvidia_smi_list"] == LIST


def test_a_field_that_a_shell_took_the_last_line_end_from_is_not_taken_for_cut_off() -> None:
    """`-F ibv_devinfo="$(ibv_devinfo -v)"` sends none."""
    printed = ibv_devinfo(Efa(0), Efa(1)).rstrip(b"\n")

    as_field = taken_apart({"ibv_devinfo": printed.decode(), "zone": "a"})
    as_file = taken_apart({"ibv_devinfo": (BytesIO(printed), "adapters.txt"), "zone": "a"})

    assert len(report(dict(as_field.raw)).entries or ()) == 2
    assert as_field.raw["zone"] == b"a"
    with pytest.raises(PartUnreadable, match="cut off"):
        report(dict(as_file.raw))


def test_the_digest_knows_where_one_part_ends() -> None:
    assert taken_apart({"a": "bc", "b": ""}).digest != taken_apart({"a": "b", "b": "c"}).digest


def test_a_part_that_is_sent_twice_is_refused() -> None:
    with pytest.raises(InvalidField, match="/seq is sent twice"):
        taken_apart({"seq": ["1", "2"]})


@pytest.mark.parametrize(
    ("body", "boundary"),
    [
        (b"", "x"),
        (b"junk", "x"),
        (b"--x\r\n", None),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb', "x"),
    ],
)
def test_a_body_that_is_not_whole_is_malformed(body: bytes, boundary: str | None) -> None:
    with pytest.raises(MalformedBody):
        read_parts(BytesIO(body), boundary, len(body))
