# SPDX-License-Identifier: Apache-2.0
"""Does a diagnostic say the same in the words of DCGM 3 and of DCGM 4, and blame whom DCGM blames?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from registry.collectors import dcgm_diag
from registry.collectors.dcgm_errors import NAMES, Complaint, Grade, grade, name_error
from registry.collectors.running import ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.failures import CATALOGUE, Effect, look_up
from registry.domain.reports import CheckStatus, Findings
from tests.collectors.dcgm import SERIALS, diag3, diag4, gpus4, warning

FAIL, WARN, SKIPPED, UNKNOWN, PASS = (
    CheckStatus.FAIL,
    CheckStatus.WARN,
    CheckStatus.SKIPPED,
    CheckStatus.UNKNOWN,
    CheckStatus.PASS,
)


def statuses(found: Findings) -> dict[str | None, CheckStatus]:
    assert {check.name for check in found.checks} == {"dcgm.diag"}
    return {check.device: check.status for check in found.checks}


def faults(found: Findings) -> list[tuple[str | None, str]]:
    return [(failure.device, failure.code) for failure in found.failures]


def one(status: str, *warnings: dict[str, Any]) -> Findings:
    """Read a diagnostic of one GPU."""
    return dcgm_diag.parse(gpus4(1, {0: (status, warnings)}))


def test_dcgm_4_names_the_gpu_that_failed_by_its_serial() -> None:
    found = dcgm_diag.parse(gpus4(8, {5: ("Fail", [warning(52)])}))

    assert statuses(found) == {serial: FAIL if at == 5 else PASS for at, serial in enumerate(SERIALS)}
    assert faults(found) == [(SERIALS[5], "dcgm_faulty_memory")]
    (failure,) = found.failures
    assert failure.evidence == {
        "check": "dcgm.diag",
        "test": "memory",
        "entity": SERIALS[5],
        "error": "FAULTY_MEMORY",
        "severity": 2,
        "category": 10,
        "dcgm_version": "4.5.1",
    }


def test_dcgm_3_names_it_by_its_number_and_text_before_the_document_is_passed_over() -> None:
    results = [{"gpu_ids": "0,1,2,3", "status": "PASS"}, {"gpu_ids": "2", "status": "FAIL", "warnings": [warning(30)]}]

    found = dcgm_diag.parse(diag3(results))

    assert statuses(found) == {"gpu:0": PASS, "gpu:1": PASS, "gpu:2": FAIL, "gpu:3": PASS}
    assert faults(found) == [("gpu:2", "dcgm_low_bandwidth")]


@pytest.mark.parametrize("ids", ["1,3", [1, 3], ["1", "3"], " 1, 3 "])
def test_ids_are_read_as_a_comma_list_or_a_list(ids: object) -> None:
    found = dcgm_diag.parse(diag3([{"gpu_ids": ids, "status": "PASS"}]))

    assert statuses(found) == {"gpu:1": PASS, "gpu:3": PASS}


def test_both_forms_give_the_same_verdict() -> None:
    old = dcgm_diag.parse(diag3([{"gpu_id": "0", "status": "FAIL", "warnings": [warning(52)]}], test="memory"))
    new = dcgm_diag.parse(diag4([("GPU", 0, "Fail", [warning(52)])], serials=[None]))

    assert statuses(old) == statuses(new) == {"gpu:0": FAIL}
    assert faults(old) == faults(new)


def test_the_serials_of_dcgm_3_name_its_gpus() -> None:
    results = [{"gpu_ids": "0,1", "status": "PASS"}]

    found = dcgm_diag.parse(diag3(results, **{"GPU Device Serials": {"1": SERIALS[1]}}))

    assert statuses(found) == {"gpu:0": PASS, SERIALS[1]: PASS}


@pytest.mark.parametrize("blank", ["<<<NOT_SUPPORTED>>>", "0000000000000", "", "N/A"])
def test_a_blank_in_place_of_a_serial_names_nobody(blank: str) -> None:
    found = dcgm_diag.parse(diag4([("GPU", 0, "Pass", [])], serials=[blank]))

    assert statuses(found) == {"gpu:0": PASS}


def test_a_serial_that_two_gpus_share_names_neither() -> None:
    results = [("GPU", 0, "Pass", ()), ("GPU", 1, "Fail", [warning()])]

    found = dcgm_diag.parse(diag4(results, serials=[SERIALS[0], SERIALS[0]]))

    assert statuses(found) == {"gpu:0": PASS, "gpu:1": FAIL}


def test_a_cpu_is_not_the_gpu_of_the_same_number() -> None:
    results = [("GPU", 0, "Pass", ()), ("CPU", 0, "Fail", [warning(95, text="the test of the CPU failed")])]

    found = dcgm_diag.parse(diag4(results))

    assert statuses(found) == {SERIALS[0]: PASS, None: FAIL}
    assert faults(found) == [(None, "dcgm_eud_test_failed")]
    assert found.failures[0].evidence is not None
    assert found.failures[0].evidence["entity"] == "CPU 0"


# --- whose fault it is ----------------------------------------------------------------------------------------------


def test_a_setting_is_the_nodes_and_no_devices_fault() -> None:
    off = warning(29, 5, "persistence mode is off")

    found = dcgm_diag.parse(gpus4(8, {at: ("Fail", [off]) for at in range(8)}))

    assert found.failures == ()
    (check,) = found.checks
    assert (check.status, check.device, check.code) == (UNKNOWN, None, "dcgm_persistence_mode")
    assert check.message == "the node is misconfigured: memory: persistence mode is off (and 7 more)"


@pytest.mark.parametrize("error", [52, 29])
def test_one_device_to_isolate_among_settings_goes_alone(error: int) -> None:
    off = warning(29, 5, "persistence mode is off")
    failing = {at: ("Fail", [off]) for at in range(8)} | {3: ("Fail", [off, warning(error, 2)])}

    found = dcgm_diag.parse(gpus4(8, failing))

    assert statuses(found) == {SERIALS[3]: FAIL, None: UNKNOWN}
    ((device, code),) = faults(found)
    assert device == SERIALS[3]
    assert look_up(code).effect in (Effect.QUARANTINE, Effect.PERMANENT)


def test_a_setting_that_keeps_the_node_from_its_work_is_a_fault_of_the_node() -> None:
    found = one("Fail", warning(112, 5, "the links are not trained"))

    assert faults(found) == [(None, "dcgm_fabric_manager_training_error")]


@pytest.mark.parametrize("severity", [None, 3, 0, 17, 9223372036854775794])
def test_an_error_without_a_known_severity_is_a_failure(severity: int | None) -> None:
    found = one("Fail", warning(50, severity))

    assert statuses(found) == {SERIALS[0]: FAIL}
    assert faults(found) == [(SERIALS[0], "dcgm_stress_level")]


def test_a_known_setting_without_a_severity_fails_the_device_and_quarantines_nobody() -> None:
    found = one("Fail", warning(29, None))

    assert statuses(found) == {SERIALS[0]: FAIL}
    assert [look_up(failure.code).effect for failure in found.failures] == [Effect.RECORD]


def test_what_is_to_be_watched_is_below_a_failure() -> None:
    found = one("Fail", warning(40, 1, "thermal violations totaling 0.0 seconds"))

    assert statuses(found) == {SERIALS[0]: WARN}
    assert found.failures == ()


@pytest.mark.parametrize("error", [44, 67, 91, 130])
def test_a_diagnostic_that_failed_itself_has_seen_nothing(error: int) -> None:
    found = one("Fail", warning(error, 4))

    assert statuses(found) == {SERIALS[0]: UNKNOWN}
    assert found.failures == ()


def test_a_failure_without_a_word_is_a_failed_diagnostic() -> None:
    assert faults(one("Fail")) == [(SERIALS[0], "gpu.diag_failed")]


def test_an_error_newer_than_the_list_keeps_its_name_or_is_a_failed_diagnostic() -> None:
    found = one("Fail", warning("DCGM_FR_BRAND_NEW", 2), warning(900, 2))

    assert faults(found) == [(SERIALS[0], "dcgm_brand_new"), (SERIALS[0], "gpu.diag_failed")]


def test_warnings_of_old_versions_are_texts() -> None:
    found = dcgm_diag.parse(diag3([{"gpu_ids": "4", "status": "Fail", "warnings": "the link is slow"}]))

    assert faults(found) == [("gpu:4", "gpu.diag_failed")]
    assert found.failures[0].message == "PCIe: the link is slow"


# --- the words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("Pass", PASS),
        ("PASS", PASS),
        ("Warn", WARN),
        ("Skip", SKIPPED),
        ("NotRun", SKIPPED),
        ("Not Run", SKIPPED),
        ("NOT_RUN", SKIPPED),
        ("Failed!", FAIL),
        ("", FAIL),
        ("fine", FAIL),
    ],
)
def test_each_word_has_its_status_and_an_unknown_one_is_a_failure(word: str, status: CheckStatus) -> None:
    assert statuses(one(word)) == {SERIALS[0]: status}


@pytest.mark.parametrize("word", ["Warn", "Skip", "Pass"])
def test_nothing_but_a_failed_test_is_a_fault(word: str) -> None:
    found = one(word, warning(52, 2))

    assert found.failures == ()
    assert statuses(found) == {SERIALS[0]: SKIPPED if word == "Skip" else WARN}


def test_the_worst_of_several_tests_counts_for_a_gpu() -> None:
    results = [{"gpu_ids": "0,1", "status": word} for word in ("Skip", "Pass", "Warn")]

    assert statuses(dcgm_diag.parse(diag3(results))) == {"gpu:0": SKIPPED, "gpu:1": SKIPPED}


DISABLED = warning(48, 5, "the memory bandwidth test is skipped for this GPU")


def diag4_of(**tests: list[dict[str, Any]]) -> bytes:
    """A diagnostic of several tests, each with its results."""
    made = [json.loads(diag4([], serials=[]))]
    made[0]["DCGM Diagnostic"]["test_categories"][0]["tests"] = [
        {"name": name, "results": results} for name, results in tests.items()
    ]
    return json.dumps(made[0]).encode()


def on_gpu(at: int, status: str, *warnings: dict[str, Any]) -> dict[str, Any]:
    return {"entity_group": "GPU", "entity_group_id": 0, "entity_id": at, "status": status, "warnings": list(warnings)}


def test_a_test_that_is_disabled_for_the_product_is_not_waited_for() -> None:
    found = dcgm_diag.parse(
        diag4_of(
            memory=[on_gpu(0, "Pass"), on_gpu(1, "Fail", warning(52))],
            memory_bandwidth=[on_gpu(0, "Skip", DISABLED), on_gpu(1, "Skip", DISABLED)],
        )
    )

    assert statuses(found) == {"gpu:0": PASS, "gpu:1": FAIL}


@pytest.mark.parametrize(
    "warnings", [[], [warning(117, 5)], [warning(55, 2, "ECC is not active")], [DISABLED, warning(55, 2)]]
)
def test_a_test_that_was_skipped_for_any_other_reason_was_not_passed(warnings: list[dict[str, Any]]) -> None:
    found = dcgm_diag.parse(diag4_of(memory=[on_gpu(0, "Pass")], other=[on_gpu(0, "Skip", *warnings)]))

    assert statuses(found) == {"gpu:0": SKIPPED}


def test_a_gpu_of_which_every_test_is_disabled_was_not_looked_at() -> None:
    assert statuses(dcgm_diag.parse(diag4_of(memory_bandwidth=[on_gpu(0, "Skip", DISABLED)]))) == {"gpu:0": SKIPPED}


@pytest.mark.parametrize("is_old_failing", [True, False])
def test_of_a_document_in_both_shapes_neither_is_passed_over(is_old_failing: bool) -> None:
    old, new = ("FAIL", "Pass") if is_old_failing else ("PASS", "Fail")
    both = {
        **json.loads(diag3([{"gpu_ids": "2", "status": old}]).split(b"\n", 1)[1]),
        **json.loads(diag4_of(memory=[on_gpu(2, new)])),
    }

    assert statuses(dcgm_diag.parse(json.dumps(both).encode())) == {"gpu:2": FAIL}


@pytest.mark.parametrize("blank", [9223372036854775794, 2147483632, "9223372036854775792"])
def test_a_blank_in_place_of_a_number_is_no_number(blank: object) -> None:
    found = dcgm_diag.parse(diag3([{"gpu_ids": blank, "status": "FAIL", "warnings": [warning(blank, blank)]}]))

    assert statuses(found) == {None: FAIL}
    assert "severity" not in (found.failures[0].evidence or {})


def test_a_result_without_ids_is_about_the_node() -> None:
    found = dcgm_diag.parse(diag3([{"status": "Fail", "warnings": [warning(18, 5)]}], test="Denylist"))

    assert statuses(found) == {None: UNKNOWN}


def test_a_summary_that_says_more_than_the_results_counts_for_the_node() -> None:
    document = json.loads(gpus4(2))
    document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["test_summary"] = {"status": "Fail"}

    found = dcgm_diag.parse(json.dumps(document).encode())

    assert statuses(found) == {SERIALS[0]: PASS, SERIALS[1]: PASS, None: FAIL}


def test_a_runtime_error_is_unknown_and_nobodys_fault() -> None:
    found = dcgm_diag.parse(b'{"DCGM Diagnostic": {"runtime_error": "the diagnostic could not be started"}}')

    assert statuses(found) == {None: UNKNOWN}
    assert found.failures == ()


@pytest.mark.parametrize(
    "words",
    [b"Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n", b"Error: timeout\n"],
)
def test_a_host_engine_out_of_reach_is_unknown_and_nobodys_fault(words: bytes) -> None:
    found = dcgm_diag.parse(words)

    assert statuses(found) == {None: UNKNOWN}
    assert found.checks[0].message == words.decode().strip()


def test_a_diagnostic_without_a_test_is_unknown() -> None:
    assert statuses(dcgm_diag.parse(b'{"DCGM Diagnostic": {"test_categories": []}}')) == {None: UNKNOWN}


def test_the_same_result_read_again_has_the_same_id_and_each_fault_its_own() -> None:
    data = gpus4(8, {1: ("Fail", [warning(52)]), 2: ("Fail", [warning(52), warning(57)])})
    first, second = dcgm_diag.parse(data), dcgm_diag.parse(data)

    ids = [failure.failure_id for failure in first.failures]
    assert ids == [failure.failure_id for failure in second.failures]
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"+---- Diagnostic ----+\n| memory | Fail |\n| Warning | Error: bad |", "run it with -j"),
        (b"\xff\xfe\x00", "is not text"),
        (gpus4(8)[:-40], "cut off"),
        (gpus4(1) + gpus4(1), "two documents"),
        (b'{"DCGM Diagnostic": []}', "holds no object"),
        (b'{"body": {}}', "is not that of dcgmi diag"),
        (diag3([{"gpu_ids": "first", "status": "PASS"}]), "is not the number of a GPU"),
        (diag3([{"gpu_ids": "-1", "status": "PASS"}]), "is not the number of a GPU"),
        (diag3([{"gpu_ids": "70000", "status": "PASS"}]), "is not the number of a GPU"),
        (diag3([{"gpu_ids": ",".join(map(str, range(2000))), "status": "PASS"}]), "more than 1024 GPUs"),
    ],
)
def test_what_is_no_diagnostic_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        dcgm_diag.parse(data)


def test_text_that_cannot_be_stored_does_not_get_through() -> None:
    found = one("Fail", warning(52, 2, "a\x00b\ud800c\nd" + "x" * 5000))

    (failure,) = found.failures
    assert failure.message is not None
    assert failure.message.isprintable()
    assert len(failure.message) < 400


# --- the list of errors ---------------------------------------------------------------------------------------------


def test_every_error_has_its_number_and_a_row_in_the_catalogue() -> None:
    assert len(NAMES) == len(set(NAMES)) == 133
    assert [NAMES[number] for number in (0, 4, 29, 52, 80, 101, 132)] == [
        *("OK", "VOLATILE_DBE_DETECTED", "PERSISTENCE_MODE", "FAULTY_MEMORY", "ROW_REMAP_FAILURE"),
        *("XID_ERROR", "UNCORRECTABLE_ROW_REMAP_LIMIT"),
    ]
    assert [name for name in NAMES if f"dcgm_{name.lower()}" not in CATALOGUE] == []


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (52, "FAULTY_MEMORY"),
        ("52", "FAULTY_MEMORY"),
        ("DCGM_FR_FAULTY_MEMORY", "FAULTY_MEMORY"),
        ("CLOCK_THROTTLE_THERMAL", "CLOCKS_EVENT_THERMAL"),
        (-1, None),
        (4711, None),
        (True, None),
        ("?", None),
        (None, None),
    ],
)
def test_an_error_is_known_by_number_and_by_name(said: object, name: str | None) -> None:
    assert name_error(said) == name


def test_only_the_severity_that_dcgm_prints_makes_a_setting() -> None:
    assert grade(Complaint("", "PERSISTENCE_MODE", 5)) is Grade.SETTING
    assert grade(Complaint("", "FAULTY_MEMORY", 5)) is Grade.SETTING
    assert grade(Complaint("", "PERSISTENCE_MODE", None)) is Grade.FAULT


# --- running it -----------------------------------------------------------------------------------------------------


def test_the_collector_runs_the_level_that_was_asked_for() -> None:
    asked: list[list[str]] = []

    def run(command: Any) -> bytes:
        asked.append(list(command))
        return gpus4(2)

    found = dcgm_diag.collect(Path("/"), run, level=3)

    assert asked == [["dcgmi", "diag", "-r", "3", "-j"]]
    assert statuses(found) == {SERIALS[0]: PASS, SERIALS[1]: PASS}


def test_a_diagnostic_that_hung_is_unknown_and_one_that_is_not_there_says_nothing() -> None:
    def hang(_: object) -> bytes:
        raise ToolFailed("dcgmi did not answer within 600 s")

    def lack(_: object) -> bytes:
        raise ToolMissing("dcgmi")

    assert statuses(dcgm_diag.collect(Path("/"), hang)) == {None: UNKNOWN}
    with pytest.raises(ToolMissing):
        dcgm_diag.collect(Path("/"), lack)
