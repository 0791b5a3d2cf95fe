# SPDX-License-Identifier: Apache-2.0
"""Group E of the public reports: what nvidia-smi prints when it is ill, new, pasted, or not asked again."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable, Sequence
from html import escape

import pytest

from tests.cases.conftest import World, card, codes, one_engine
from tests.collectors.documents import csv_document, h100_xml, q_document, xml_document
from tests.collectors.machines import Gpu, change, h100_gpus

INFOROM = "WARNING: infoROM is corrupted at gpu 0000:3a:00.0\n"
Maker = Callable[[Sequence[Gpu]], bytes]
MAKERS: dict[str, Maker] = {
    "nvidia_smi_xml": xml_document,
    "nvidia_smi_q": q_document,
    "nvidia_smi_csv": csv_document,
}


def at(minute: int) -> str:
    """The timestamp of another look."""
    return f"Wed Sep  2 08:{minute:02d}:30 2026"


@one_engine
@pytest.mark.parametrize("part", MAKERS)
@pytest.mark.parametrize("word", ["ERR!", "[ERR!]", "err!", "GPU requires reset", "[GPU is lost]"])
def test_a_crashed_gpu_is_a_failed_look_at_its_place(world: World, part: str, word: str) -> None:
    """C44."""
    world.expect(8)
    gpus = h100_gpus(8)
    world.report_raw(nvidia_smi_xml=xml_document(gpus))
    ill = change(gpus, 5, model=word, temperature=word, serial=word, uuid=word, vbios=word)

    decision = world.report_raw(**{part: MAKERS[part](ill)})["admission"]

    shown = world.on()[5]
    assert (shown["slot"], shown["serial"], shown["model"]) == ("0000:ab:00.0", gpus[5].serial, "NVIDIA H100 80GB HBM3")
    assert shown["readings"]["temperature_celsius"] is None
    assert "vbios" not in shown["firmware"]
    failing = [one for one in decision["reasons"] if one["code"] == "check_failing"]
    assert [one["device"]["serial"] for one in failing] == [gpus[5].serial]
    assert word.strip("[]") in failing[0]["message"]
    assert len(world.devices()) == 8
    assert all(word not in str(device) for device in world.devices())


def test_a_crashed_gpu_that_was_never_seen_is_nobody_and_has_no_model(world: World) -> None:
    """C44."""
    world.expect(1)
    table = b"index, name, serial, uuid, pci.bus_id, temperature.gpu\n0, ERR!, ERR!, ERR!, 00000000:3B:00.0, ERR!\n"

    decision = world.report_raw(nvidia_smi_csv=table)["admission"]

    (shown,) = world.on()
    assert (shown["state"], shown["model"], shown["slot"]) == ("unidentified", None, "0000:3b:00.0")
    assert {"device_unidentified", "check_failing"} <= set(codes(decision))
    assert world.devices() == []


@one_engine
@pytest.mark.parametrize("version", [None, 9, 10, 11, 12, 13, 14, 99])
def test_every_version_of_the_document_gives_the_identities(world: World, version: int | None) -> None:
    """C46."""
    world.expect(8)
    gpus = h100_gpus(8)

    answer = world.report_raw(nvidia_smi_xml=xml_document(gpus, version=version))

    assert [(one["serial"], one["uuid"]) for one in world.on()] == [(gpu.serial, gpu.uuid) for gpu in gpus]
    assert [one["firmware"]["vbios"] for one in world.on()] == [gpu.vbios for gpu in gpus]
    warnings = [warning["code"] for warning in answer["warnings"]]
    assert warnings == (["unknown_document_version"] if version in {14, 99} else [])
    assert all(f"v{version}" in warning["message"] for warning in answer["warnings"])


@one_engine
@pytest.mark.parametrize("version", [10, 11, 13, 14])
@pytest.mark.parametrize("block", ["ecc_errors", "remapped_rows"])
def test_a_health_block_that_is_not_there_is_unknown_and_not_zero(world: World, version: int, block: str) -> None:
    """C46."""
    check = {"ecc_errors": "gpu.ecc", "remapped_rows": "gpu.row_remap"}[block]
    world.expect(8, check)
    document = xml_document(h100_gpus(8), version=version).decode()
    without = re.sub(rf"<{block}>.*?</{block}>", "", document, flags=re.DOTALL)
    if block == "remapped_rows":
        without = re.sub(r"<retired_pages>.*?</retired_pages>", "", without, flags=re.DOTALL)

    answer = world.report_raw(nvidia_smi_xml=without.encode())

    assert answer["pass"]["counted"] is False
    assert "check_unknown" in codes(answer["admission"])
    readings = world.on()[0]["readings"]
    names = {"ecc_errors": "ecc_volatile_uncorrected", "remapped_rows": "remap_pending"}
    assert readings.get(names[block]) is None


def test_a_warning_after_the_document_is_a_fault_of_its_gpu(world: World) -> None:
    """C47."""
    world.expect(8)
    gpus = h100_gpus(8)

    world.report_raw(nvidia_smi_xml=xml_document(gpus) + INFOROM.encode())
    world.report_raw(nvidia_smi_xml=xml_document(gpus) + INFOROM.encode())

    (failure,) = world.operator.get("/v1/failures").json["items"]
    assert (failure["code"], failure["serial"]) == ("gpu.inforom", gpus[2].serial)
    assert failure["message"] == INFOROM.strip()
    assert len(world.on()) == 8


@one_engine
@pytest.mark.parametrize(
    "dress",
    [
        lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.encode("utf-16"),
        lambda text: f"\n\n{text}\n\n".encode(),
        lambda text: f"WARNING: something else\n{text}".encode(),
    ],
)
def test_a_document_is_read_in_any_dress(world: World, dress: Callable[[str], bytes]) -> None:
    """C47."""
    world.expect(8)
    for number, (part, make) in enumerate(MAKERS.items()):
        gpus = h100_gpus(8, node=number)

        world.report_raw(part, **{part: dress(make(gpus).decode())})

        assert [(one["serial"], one["uuid"]) for one in world.on(part)] == [(gpu.serial, gpu.uuid) for gpu in gpus]


@one_engine
@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text + text,
        lambda text: text + b"\n" + text,
        lambda text: text + codecs.BOM_UTF8 + text,
        lambda text: text[: len(text) // 2],
        lambda text: text + b"\nSegmentation fault (core dumped)\n",
        lambda text: text[:0],
    ],
)
def test_two_documents_or_half_a_one_are_refused(world: World, spoil: Callable[[bytes], bytes]) -> None:
    """C47."""
    world.expect(8)
    world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(0)))
    before, shown = world.events(), world.on()

    for part, make in MAKERS.items():
        response = world.post_raw(**{part: spoil(make(h100_gpus(8, node=7)))})

        assert (response.status_code, response.json["code"]) == (422, "part_unreadable")
        assert response.json["errors"][0]["detail"]
    assert (world.events(), world.on()) == (before, shown)


@one_engine
@pytest.mark.parametrize(
    "paste",
    [
        escape,
        lambda text: escape(text).replace(" ", "&nbsp;"),
        lambda text: f"<pre>{escape(text)}</pre>",
        lambda text: text.replace(" C<", "&nbsp;C<"),
        lambda text: text.replace("<", "&#60;").replace(">", "&#62;"),
        lambda text: escape(escape(text)),
    ],
)
def test_a_document_pasted_through_a_web_form_is_refused_with_the_reason(
    world: World, paste: Callable[[str], str]
) -> None:
    """C49."""
    world.expect(8)

    response = world.post_raw(nvidia_smi_xml=paste(h100_xml(8).decode()).encode())

    assert (response.status_code, response.json["code"]) == (422, "part_unreadable")
    assert len(response.json["detail"]) > 20
    assert world.operator.get("/v1/nodes/node-a").status_code == 404


@one_engine
@pytest.mark.parametrize(
    "declaration",
    [
        "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9)) + '<!ENTITY e0 "aaaaaaaaaa">',
        '<!ENTITY e9 SYSTEM "file:///etc/hostname">',
        '<!ENTITY % e9 SYSTEM "http://127.0.0.1:9/x.dtd"> %e9;',
        '<!ENTITY e9 "GPU">',
    ],
)
def test_entities_are_never_expanded(world: World, declaration: str) -> None:
    """C49."""
    world.expect(8)
    document = h100_xml(8).decode()
    doctype = f"<!DOCTYPE nvidia_smi_log [{declaration}]>"
    bomb = re.sub(r"<!DOCTYPE.*?>", lambda _: doctype, document, count=1).replace("NVIDIA H100", "&e9;", 1)
    began = time.monotonic()

    response = world.post_raw(nvidia_smi_xml=bomb.encode())

    assert (response.status_code, response.json["code"]) == (422, "part_unreadable")
    assert "entit" in response.json["detail"]
    assert time.monotonic() - began < 5
    assert len(response.text) < 2000


def test_an_old_file_is_neither_a_pass_nor_a_sign_of_life(world: World) -> None:
    """C50."""
    world.expect(8)
    first = world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(0)))
    before, answers = world.events(), []
    for _ in range(60):
        world.clock.advance(60)
        answers.append(world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(0))))

    assert first["pass"]["counted"] is True
    assert {answer["pass"]["because"] for answer in answers} == {"content_repeated"}
    assert {answer["admission"]["admitted"] for answer in answers} == {False}
    assert codes(answers[-1]["admission"])[0] == "report_stale"
    assert {event["type"] for event in world.events()[len(before) :]} <= {"passes.reset"}
    world.clock.advance(60)
    assert world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(1)))["pass"]["have"] == 1


def test_an_admitted_node_whose_file_stands_still_is_not_admitted_past_the_limit(world: World) -> None:
    """C50."""
    world.expect(8)
    for minute in (0, 1):
        world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(minute)))
        world.clock.advance(31)
    admitted = []
    for _ in range(6):
        admitted.append(world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(1)))["admission"]["admitted"])
        world.clock.advance(30)

    assert admitted == [True, True, True, False, False, False]
    assert codes(world.decision()) == ["report_stale"]
    world.clock.advance(3600)
    assert codes(world.decision()) == ["report_stale", "passes_insufficient"]


def test_what_is_new_under_an_old_timestamp_is_evidence_and_no_pass(world: World) -> None:
    """C50."""
    world.expect(8, "gpu.row_remap")
    for minute in (0, 1):
        world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(minute)))
        world.clock.advance(31)

    answer = world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(1), pending=[2]))

    assert answer["pass"] == {**answer["pass"], "counted": False, "because": "content_repeated", "have": 0}
    assert codes(answer["admission"]) == ["device_quarantined", "check_failing", "passes_insufficient"]
    healed = world.report_raw(nvidia_smi_xml=h100_xml(8, stamp=at(1)))
    assert codes(healed["admission"]) == ["device_quarantined", "check_failing", "passes_insufficient"]


def test_the_same_list_as_json_is_a_new_look_each_time(world: World) -> None:
    """C50."""
    world.expect(1)

    assert world.admit("node-a", [card(1)])["admitted"] is True
