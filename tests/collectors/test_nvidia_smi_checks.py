# SPDX-License-Identifier: Apache-2.0
"""Do printed words decide checks as the table of the design says, and never in a device's favour by mistake?"""

from __future__ import annotations

import pytest

from registry.collectors import nvidia_smi_csv, nvidia_smi_q, nvidia_smi_xml
from registry.collectors.nvidia_smi_checks import Printed, Word, add_up, classify, derive_checks, read_count
from registry.collectors.nvidia_smi_xml import parse
from registry.domain.reports import CheckStatus
from tests.collectors.documents import h100_xml, q_document, xml_document
from tests.collectors.machines import change, h100_gpus


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (None, Word.ABSENT),
        ("", Word.ABSENT),
        ("N/A", Word.NOT_APPLICABLE),
        (" [n/a] ", Word.NOT_APPLICABLE),
        ("[Not Supported]", Word.NOT_APPLICABLE),
        ("[Function Not Found]", Word.ABSENT),
        ("[Requested functionality has been deprecated]", Word.ABSENT),
        ("Unknown Error", Word.UNREADABLE),
        ("[Insufficient Permissions]", Word.UNREADABLE),
        ("ERR!", Word.GONE),
        ("[GPU is lost]", Word.GONE),
        ("GPU is lost.  Reboot the system to recover this GPU", Word.GONE),
        ("[GPU requires reset]", Word.GONE),
        ("None", Word.VALUE),
        ("0", Word.VALUE),
    ],
)
def test_words_are_told_from_values(text: str | None, word: Word) -> None:
    assert classify(text) is word


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        (" 17 ", 17),
        ("N/A", Word.NOT_APPLICABLE),
        ("-1", Word.UNREADABLE),
        ("1.5", Word.UNREADABLE),
        ("٣", Word.UNREADABLE),
        ("9" * 5000, Word.UNREADABLE),
        ("9223372036854775794", Word.NOT_APPLICABLE),
        ("9223372036854775792", Word.UNREADABLE),
        ("2147483634", Word.NOT_APPLICABLE),
        ("2147483632", Word.UNREADABLE),
    ],
)
def test_counters_are_numbers_or_say_why_not(text: str, count: int | Word) -> None:
    assert read_count(text) == count


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ([], None),
        (["1", "2"], "3"),
        (["0", "N/A"], "0"),
        (["N/A", "N/A"], "N/A"),
        (["0", "Unknown Error"], "Unknown Error"),
        (["N/A", "Unknown Error"], "Unknown Error"),
        (["2", "Unknown Error"], "2"),
    ],
)
def test_a_sum_never_hides_an_error_or_an_unreadable_term(terms: list[str], total: str | None) -> None:
    assert add_up(terms) == total


def status(name: str, **texts: str) -> CheckStatus:
    (result,) = derive_checks(Printed(texts), "0000:18:00.0", frozenset({name}))
    return result.status


@pytest.mark.parametrize(
    ("volatile", "aggregate", "expected"),
    [
        ("0", "0", CheckStatus.PASS),
        ("1", "1", CheckStatus.FAIL),
        ("1", "Unknown Error", CheckStatus.FAIL),
        ("0", "4", CheckStatus.WARN),
        ("0", "N/A", CheckStatus.PASS),
        ("N/A", "N/A", CheckStatus.NOT_APPLICABLE),
        ("Unknown Error", "0", CheckStatus.UNKNOWN),
        ("0", "Unknown Error", CheckStatus.UNKNOWN),
        ("many", "0", CheckStatus.UNKNOWN),
        ("GPU is lost", "GPU is lost", CheckStatus.UNKNOWN),
    ],
)
def test_ecc(volatile: str, aggregate: str, expected: CheckStatus) -> None:
    texts = {"ecc_volatile_uncorrected": volatile, "ecc_aggregate_uncorrected": aggregate}

    assert status("gpu.ecc", **texts) is expected


@pytest.mark.parametrize(
    ("threshold", "volatile", "expected", "code"),
    [
        ("Yes", "0", CheckStatus.FAIL, "gpu.sram.threshold"),
        ("Yes", "3", CheckStatus.FAIL, "gpu.sram.threshold"),
        ("1", "N/A", CheckStatus.FAIL, "gpu.sram.threshold"),
        ("No", "3", CheckStatus.FAIL, "gpu.ecc.dbe"),
        ("No", "0", CheckStatus.PASS, None),
        ("N/A", "0", CheckStatus.PASS, None),
        (None, "0", CheckStatus.PASS, None),
        ("Unknown Error", "0", CheckStatus.UNKNOWN, None),
        ("Perhaps", "0", CheckStatus.UNKNOWN, None),
    ],
)
def test_an_sram_beyond_its_threshold_is_a_fault_of_its_own(
    threshold: str | None, volatile: str, expected: CheckStatus, code: str | None
) -> None:
    texts = {"ecc_volatile_uncorrected": volatile, "ecc_aggregate_uncorrected": "0"}
    texts |= {} if threshold is None else {"sram_threshold_exceeded": threshold}

    (found,) = derive_checks(Printed(texts), "0000:18:00.0", frozenset({"gpu.ecc"}))

    assert (found.status, found.code) == (expected, code)


def test_every_output_of_nvidia_smi_tells_of_the_srams_threshold() -> None:
    flag = b"<sram_threshold_exceeded>%s</sram_threshold_exceeded></aggregate>"
    xml = h100_xml(2).replace(b"</aggregate>", flag % b"Yes", 1).replace(b"</aggregate>\n", flag % b"No" + b"\n")
    header = "uuid, pci.bus_id, ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"
    rows = ("GPU-1, 00000000:18:00.0, Yes", "GPU-2, 00000000:2A:00.0, [N/A]")
    heading = b"        Aggregate\n"
    text = q_document(h100_gpus(2)).replace(heading, heading + b"            SRAM Threshold Exceeded : Yes\n", 1)

    for listed in (
        nvidia_smi_xml.parse(xml),
        nvidia_smi_csv.parse("\n".join((header, *rows, "")).encode()),
        nvidia_smi_q.parse(text),
    ):
        failed = [one for one in listed.checks if one.code == "gpu.sram.threshold"]
        assert [(one.name, one.device) for one in failed] == [("gpu.ecc", listed.entries[0].slot)]
        assert listed.entries[0].readings["sram_threshold_exceeded"] == "Yes"


def test_ecc_without_a_block_is_unknown() -> None:
    assert status("gpu.ecc") is CheckStatus.UNKNOWN
    assert status("gpu.ecc", ecc_volatile_uncorrected="0") is CheckStatus.UNKNOWN


@pytest.mark.parametrize(
    ("pending", "failure", "retired", "expected"),
    [
        ("No", "No", "N/A", CheckStatus.PASS),
        ("No", "No", None, CheckStatus.PASS),
        ("Yes", "No", "N/A", CheckStatus.FAIL),
        ("No", "Yes", "N/A", CheckStatus.FAIL),
        ("No", "No", "Yes", CheckStatus.FAIL),
        ("Unknown Error", "Yes", "N/A", CheckStatus.FAIL),
        ("N/A", "N/A", "No", CheckStatus.PASS),
        (None, None, "No", CheckStatus.PASS),
        ("N/A", "N/A", "N/A", CheckStatus.NOT_APPLICABLE),
        ("9223372036854775794", "9223372036854775794", "N/A", CheckStatus.NOT_APPLICABLE),
        ("No", None, "N/A", CheckStatus.UNKNOWN),
        ("No", "Unknown Error", "N/A", CheckStatus.UNKNOWN),
        ("No", "No", "Unknown Error", CheckStatus.UNKNOWN),
        ("Perhaps", "No", "N/A", CheckStatus.UNKNOWN),
        ("N/A", "N/A", None, CheckStatus.UNKNOWN),
        (None, None, None, CheckStatus.UNKNOWN),
        (None, None, "N/A", CheckStatus.UNKNOWN),
    ],
)
def test_row_remap(pending: str | None, failure: str | None, retired: str | None, expected: CheckStatus) -> None:
    named = {"remap_pending": pending, "remap_failure": failure, "retired_pending": retired}
    texts = {name: text for name, text in named.items() if text is not None}

    assert status("gpu.row_remap", **texts) is expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("None", CheckStatus.PASS),
        ("Reset", CheckStatus.FAIL),
        ("Drain and Reset", CheckStatus.FAIL),
        ("N/A", CheckStatus.NOT_APPLICABLE),
        ("[Function Not Found]", CheckStatus.NOT_APPLICABLE),
        ("Unknown Error", CheckStatus.UNKNOWN),
    ],
)
def test_recovery_action(action: str, expected: CheckStatus) -> None:
    assert status("gpu.recovery_action", recovery_action=action) is expected


def test_a_gpu_that_does_not_answer_passes_nothing_and_still_fails_what_fails() -> None:
    texts = {"ecc_volatile_uncorrected": "0", "ecc_aggregate_uncorrected": "0", "remap_pending": "Yes"}

    results = {check.name: check for check in derive_checks(Printed(texts, gone="GPU is lost"), "0000:18:00.0")}

    assert results["gpu.ecc"].status is CheckStatus.UNKNOWN
    assert results["gpu.recovery_action"].status is CheckStatus.UNKNOWN
    assert results["gpu.row_remap"].status is CheckStatus.FAIL
    assert results["gpu.responding"].code == "gpu.fallen_off_bus"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("GPU is lost", "gpu.fallen_off_bus"),
        ("[GPU requires reset]", "gpu.requires_reset"),
        ("Unable to determine the device handle for GPU 0000:18:00.0: Unknown Error", "gpu.nvml_unknown"),
        ("ERR!", None),
    ],
)
def test_what_stands_in_the_place_of_a_gpu_says_what_is_wrong_with_it(said: str, code: str | None) -> None:
    """C108."""
    results = {check.name: check for check in derive_checks(Printed({}, gone=said), "0000:18:00.0")}

    assert (results["gpu.responding"].status, results["gpu.responding"].code) == (CheckStatus.FAIL, code)


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("41", 41),
        ("-5", -5),
        ("200", 200),
        ("0", None),
        ("510", None),
        ("65535", None),
        ("-51", None),
        ("2147483632", None),
        ("9223372036854775794", None),
        ("N/A", None),
        ("warm", None),
    ],
)
def test_blanks_are_no_temperatures(text: str, degrees: int | None) -> None:
    machine = change(h100_gpus(1), 0, temperature=text, memory_temperature=text)

    readings = parse(xml_document(machine)).entries[0].readings

    assert readings["temperature_celsius"] == readings["memory_temperature_celsius"] == degrees
