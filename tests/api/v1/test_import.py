# SPDX-License-Identifier: Apache-2.0
"""Is a whole list put on hold, row by row, with nothing dropped in silence?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from werkzeug.test import TestResponse

from api.v1 import imports
from registry.domain.errors import StoreUnavailable
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, codes
from tests.clock import Clock

ADDRESS = "/v1/quarantines/import"


def send(asker: Asker, text: str | bytes, media: str = "text/csv", **query: str) -> TestResponse:
    return asker.post(ADDRESS, data=text, content_type=media, query_string={"reason": "recalled", **query})


def outcomes(response: TestResponse) -> list[tuple[int, str]]:
    return [(item["row"], item["outcome"]) for item in response.json["items"]]


@pytest.mark.parametrize("header", ["serial", "gpu_serial", "Serial", " serial ", "serial [x]", "GPU_SERIAL"])
def test_a_serial_is_found_under_each_of_its_names_and_kept_to_the_character(operator: Asker, header: str) -> None:
    response = send(operator, f"{header}\r\n0322218049033\r\n", ticket="OPS-7")

    assert response.status_code == 201, response.text
    assert outcomes(response) == [(2, "opened")]
    assert response.json["items"][0]["target"]["identifier"]["value"] == "0322218049033"
    held = operator.get(f"/v1/quarantines/{response.json['items'][0]['quarantine']}").json
    assert held["identifiers"][0]["value"] == "0322218049033"
    assert (held["reason"], held["ticket"], held["owner"]) == ("recalled", "OPS-7", "operator:alice")


def test_a_listed_device_is_kept_out_at_once_and_one_never_seen_when_it_comes(
    operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)

    send(operator, f"gpu_uuid,gpu_serial\n,{SERIALS[0]}\n,1654000000077\n")

    decision = operator.get("/v1/nodes/node-a/admission").json
    assert codes(decision) == ["device_quarantined"]
    held = operator.get("/v1/quarantines?target_kind=identifier").json["items"]
    assert [one["identifiers"][0]["value"] for one in held] == ["1654000000077"]


def test_a_row_that_cannot_be_used_is_refused_and_spoils_no_other(operator: Asker) -> None:
    rows = ["serial,uuid", "1.65E+12,", "N/A,[N/A]", "1654000000001,", "one,two,three", "0000000000000,"]

    response = send(operator, "\n".join(rows))

    assert response.status_code == 201
    assert outcomes(response) == [(2, "refused"), (3, "refused"), (4, "opened"), (5, "refused"), (6, "refused")]
    assert response.json["counts"] == {"refused": 4, "opened": 1}
    assert "1.65E+12" in response.json["items"][0]["message"]
    assert all(item["code"] == "invalid_field" for item in response.json["items"] if item["outcome"] == "refused")


def test_ndjson_takes_text_and_refuses_a_number(operator: Asker) -> None:
    lines: list[Any] = [{"serial": "0322218049033"}, {"gpu_serial": 322218049033}, {"uuid": None}, [], {"rack": "7"}]
    text = "\n".join(map(json.dumps, lines)) + "\nnonsense\n"

    response = send(operator, text, "application/x-ndjson")

    assert outcomes(response) == [(1, "opened"), *((row, "refused") for row in (2, 3, 4, 5, 6))]
    assert "leading zeros" in response.json["items"][1]["message"]
    assert response.json["unknown_columns"] == ["rack"]


def test_an_unknown_column_is_named(operator: Asker) -> None:
    response = send(operator, "serial,rack,Owner \n1654000000001,7,bob\n")

    assert response.json["unknown_columns"] == ["rack", "Owner"]


def test_a_list_without_a_column_that_names_hardware_is_refused_whole(operator: Asker) -> None:
    response = send(operator, "Serial Number,rack\n1654000000001,7\n")

    assert response.status_code == 422
    assert response.json["code"] == "part_unreadable"
    assert "Serial Number,rack" in response.json["detail"]
    assert operator.get("/v1/quarantines").json["items"] == []


def test_importing_a_list_again_changes_nothing(operator: Asker) -> None:
    first, again = (send(operator, "serial\n1\n2\n1\n") for _ in range(2))

    assert outcomes(first) == [(2, "opened"), (3, "opened"), (4, "already_open")]
    assert again.status_code == 200
    assert {item["outcome"] for item in again.json["items"]} == {"already_open"}
    assert len(operator.get("/v1/quarantines").json["items"]) == 2


def test_a_bus_id_is_told_to_name_a_place_and_holds_nothing(operator: Asker) -> None:
    response = send(operator, "pci.bus_id,serial,rack\n00000000:3B:00.0,1654000000001,7\n")
    alone = send(operator, "pci.bus_id\n00000000:3B:00.0\n")

    assert outcomes(response) == [(2, "opened")]
    assert response.json["unknown_columns"] == ["rack"]
    ((code, message),) = [(one["code"], one["message"]) for one in response.json["warnings"]]
    assert (code, message.split()[0]) == ("place_not_read", "pci.bus_id")
    assert alone.json["code"] == "part_unreadable"
    assert len(operator.get("/v1/quarantines").json["items"]) == 1


def with_key(operator: Asker, text: str, **query: str) -> TestResponse:
    headers = {"Idempotency-Key": "k-1"}
    query = {"reason": "recalled", **query}
    return operator.post(ADDRESS, data=text, content_type="text/csv", query_string=query, headers=headers)


def test_under_one_key_the_first_answer_comes_again(operator: Asker) -> None:
    first, again = with_key(operator, "serial\n1\n2\n"), with_key(operator, "serial\n1\n2\n")

    assert outcomes(first) == [(2, "opened"), (3, "opened")]
    assert (again.status_code, again.data) == (201, first.data)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert with_key(operator, "serial\n3\n").json["code"] == "idempotency_key_reused"
    assert with_key(operator, "serial\n1\n2\n", ticket="OPS-7").json["code"] == "idempotency_key_reused"
    assert len(operator.get("/v1/quarantines").json["items"]) == 2


def test_an_import_that_broke_off_is_done_to_its_end_under_the_same_key(
    operator: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "serial\n" + "".join(f"{1654000000000 + at}\n" for at in range(imports.BATCH + 1))
    real, calls = imports.quarantine.open_quarantines, []

    def fail_at_the_second(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise StoreUnavailable("the disk is full")
        return real(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(imports.quarantine, "open_quarantines", fail_at_the_second)
        broken = with_key(operator, text)
    done = with_key(operator, text)

    assert broken.json["code"] == "store_unavailable"
    assert done.json["counts"] == {"already_open": imports.BATCH, "opened": 1}
    assert with_key(operator, text).data == done.data


def test_a_dry_run_holds_nothing(operator: Asker) -> None:
    response = send(operator, "serial\n1\n", dry_run="true")

    assert response.status_code == 200
    assert response.json["dry_run"] is True
    assert outcomes(response) == [(2, "opened")]
    assert operator.get("/v1/quarantines").json["items"] == []


def test_a_list_of_which_nothing_is_held_is_a_problem_that_says_why_row_by_row(operator: Asker) -> None:
    response = send(operator, "serial\nN/A\n[N/A]\n")

    assert response.status_code == 422
    assert response.content_type == "application/problem+json"
    assert outcomes(response) == [(2, "refused"), (3, "refused")]


def test_rows_are_held_in_batches_and_each_has_its_outcome(operator: Asker) -> None:
    count = 2 * imports.BATCH + 1

    response = send(operator, "serial\n" + "".join(f"{1654000000000 + at}\n" for at in range(count)))

    assert outcomes(response) == [(at + 2, "opened") for at in range(count)]


def test_a_list_has_a_limit(operator: Asker) -> None:
    response = send(operator, "serial\n" + "1\n" * (imports.ROWS_MAX + 1))

    assert response.json["code"] == "invalid_field"
    assert str(imports.ROWS_MAX) in response.json["detail"]


@pytest.mark.parametrize(
    ("text", "media", "query", "code"),
    [
        ("serial\n1\n", "application/json", {}, "malformed_body"),
        ("serial\n1\n", "text/csv", {"reason": "  "}, "invalid_field"),
        ("serial\n1\n", "text/csv", {"kind": "tpu"}, "invalid_field"),
        ("serial\n1\n", "text/csv", {"release_policy": "at_expiry"}, "invalid_field"),
        ("serial\n1\n", "text/csv", {"colour": "red"}, "invalid_field"),
        ("", "text/csv", {}, "part_unreadable"),
        (b"serial\n\xff\n", "text/csv", {}, "part_unreadable"),
        (b"serial\n1\x002\n", "text/csv", {}, "invalid_field"),
        ("serial\n" + "1" * 257 + "\n", "text/csv", {}, "invalid_field"),
    ],
)
def test_what_cannot_be_a_list_is_refused(
    operator: Asker, text: str | bytes, media: str, query: dict[str, str], code: str
) -> None:
    response = send(operator, text, media, **query)

    assert response.json["code"] == code
    assert operator.get("/v1/quarantines").json["items"] == []
