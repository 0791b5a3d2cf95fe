# SPDX-License-Identifier: Apache-2.0
"""Is a device's evidence handed out as a file, and are notes about it taken, by those who may?"""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, gpu, report, send
from tests.clock import Clock


def test_the_bundle_is_a_zip_file_under_the_serials_name(
    operator: Asker, node: Asker, auditor: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)

    response = auditor.get(f"/v1/devices/{SERIALS[0]}/bundle")

    assert response.status_code == 200
    assert response.content_type == "application/zip"
    assert response.headers["Content-Disposition"] == f'attachment; filename="pratique-{SERIALS[0]}.zip"'
    with zipfile.ZipFile(io.BytesIO(response.data)) as archive:
        assert json.loads(archive.read("identity.json"))["serial"] == SERIALS[0]


def test_what_fits_no_device_or_several_has_no_bundle_and_takes_no_note(
    operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)
    twins = [gpu("1654000000007", 0x30), {**gpu("1654000000008", 0x31), "serial": "1654000000007"}]
    sent = node.post("/v1/nodes/node-a/reports", json={**report(), "devices": twins})
    assert sent.status_code == 200, sent.text

    for ref, status, code in (("nobody", 404, "not_found"), ("1654000000007", 409, "device_ambiguous")):
        bundle = operator.get(f"/v1/devices/{ref}/bundle")
        note = operator.post(f"/v1/devices/{ref}/notes", json={"text": "x"})

        assert (bundle.status_code, bundle.json["code"]) == (status, code)
        assert (note.status_code, note.json["code"]) == (status, code)


def test_a_note_is_written_once_under_one_key_and_shown(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    address, key = f"/v1/devices/{SERIALS[0]}/notes", {"Idempotency-Key": "k"}

    first = operator.post(address, json={"text": "two\nlines"}, headers=key)
    again = operator.post(address, json={"text": "two\nlines"}, headers=key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json == first.json
    assert (first.json["text"], first.json["noted_by"]) == ("two\nlines", "operator:alice")
    assert operator.get(f"/v1/devices/{SERIALS[0]}").json["notes"] == [first.json]
    assert len(operator.get(f"/v1/devices/{SERIALS[0]}/history?type=device.noted").json["items"]) == 1


@pytest.mark.parametrize("text", ["", "  ", "a\u202eb", "x" * 4097, None, 5])
def test_a_note_that_is_no_text_is_refused(operator: Asker, node: Asker, clock: Clock, text: object) -> None:
    admit(operator, node, clock)

    refused = operator.post(f"/v1/devices/{SERIALS[0]}/notes", json={"text": text})

    assert (refused.status_code, refused.json["errors"][0]["pointer"]) == (422, "/text")


def test_a_note_changes_nothing_else(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    operator.post(f"/v1/devices/{SERIALS[0]}/notes", json={"text": "looks odd"})

    assert send(node)["admission"]["admitted"]
