# SPDX-License-Identifier: Apache-2.0
"""What did `dcgmi diag -r N -j` find on each GPU, whichever DCGM wrote it?

DCGM 3 names GPUs by index in `gpu_ids`, several in one text, and writes no severities in some of its versions. DCGM 4
names entities of several groups, and the serials of the GPUs beside them:
https://github.com/NVIDIA/DCGM/blob/master/nvvs/include/NvvsJsonStrings.h and
https://github.com/NVIDIA/DCGM/blob/master/testing/python3/dcgm_diag_schema.json
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.collectors.dcgm_errors import Complaint, Grade, code_of, grade, holds_node, name_error
from registry.collectors.dcgm_findings import Subject, Tally, could_not_look
from registry.collectors.dcgm_text import MAX_ID, clean, is_blank, number, objects, read_output
from registry.collectors.nvidia_smi_text import MAX_DEVICES, shown
from registry.collectors.running import Runner, ToolFailed
from registry.domain.errors import PartUnreadable
from registry.domain.identifiers import IdentifierType, why_unusable
from registry.domain.reports import CheckStatus, Findings, device_by_index

DIAG = "dcgm.diag"
_TOOL = "dcgmi diag"
_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")

_STATUSES = {
    "pass": CheckStatus.PASS,
    "warn": CheckStatus.WARN,
    "skip": CheckStatus.SKIPPED,
    "skipped": CheckStatus.SKIPPED,
    "notrun": CheckStatus.SKIPPED,
}
"""The words of DCGM 3 and 4, without case and blanks. Any other word is a failure: what is new must not pass."""


@dataclass(frozen=True, slots=True)
class _Result:
    """One result of one test on one subject."""

    test: str
    subject: Subject
    status: CheckStatus
    complaints: tuple[Complaint, ...]


def parse(data: bytes) -> Findings:
    """Read the output of `dcgmi diag -j`: the check `dcgm.diag` for each GPU, and its faults.

    A GPU is named by its serial where the output tells it, else as `gpu:<index>`. A setting that fails is the node's
    and makes the check unknown there; a remark below a failure makes it a warning. A test that DCGM has disabled for
    the product counts for nothing; of a GPU that was given no other nothing was looked at. When dcgmi says that it
    could not look, the check is unknown. Raises PartUnreadable for what is cut off or is something else.
    """
    output = read_output(data, _ROOTS, _TOOL)
    if output.document is None:
        return could_not_look(DIAG, output.words)
    roots = [found for name in _ROOTS if isinstance(found := output.document.get(name), dict)]
    if not roots:
        raise PartUnreadable(f"{shown(_ROOTS[0])} holds no object; send the whole output of {_TOOL} -j")
    tally = Tally(DIAG, version=_version(output.document, roots))
    names = _serials(output.document, roots)
    for root in roots:
        for result in _results(root, names):
            _judge(result, tally)
    for said in (*roots, output.document):
        if words := clean(said.get("runtime_error")):
            tally.note(Subject(), CheckStatus.UNKNOWN, message=words)
    if tally.worst() is None:
        return could_not_look(DIAG, "the diagnostic ran no test")
    return tally.findings()


def collect(root: Path, run: Runner, level: int = 1) -> Findings:  # noqa: ARG001 - all collectors are called alike
    """Run the diagnostic at a level of 1 to 4. Raises ToolMissing and PartUnreadable."""
    try:
        return parse(run(["dcgmi", "diag", "-r", str(level), "-j"]))
    except ToolFailed as failed:
        return could_not_look(DIAG, clean(str(failed)))


def _judge(result: _Result, tally: Tally) -> None:
    """Enter one result. Only a failed test can be a fault; of its warnings each says whose."""
    subject, test = result.subject, result.test
    if _is_foreign(result):
        tally.note(subject, CheckStatus.NOT_APPLICABLE, message=f"DCGM has {test} disabled for this product")
        return
    if result.status is not CheckStatus.FAIL:
        told = next(iter(result.complaints), None)
        is_noted = told is not None and result.status is CheckStatus.PASS
        status = CheckStatus.WARN if is_noted else result.status
        is_plain = status is CheckStatus.PASS
        tally.note(subject, status, told.own_code if told else None, "" if is_plain else _told(test, told))
        return
    for complaint in result.complaints or (Complaint(""),):
        _blame(complaint, subject, test, tally)


def _is_foreign(result: _Result) -> bool:
    """Tell whether a test was left out because DCGM never runs it on this product, and for no other reason.

    That stays so at every run: waiting for such a test would keep the product out for ever.
    """
    names = {complaint.name for complaint in result.complaints}
    return result.status is CheckStatus.SKIPPED and names == {"TEST_DISABLED"}


def _blame(complaint: Complaint, subject: Subject, test: str, tally: Tally) -> None:
    blame, told = grade(complaint), _told(test, complaint)
    if blame is Grade.FAULT:
        code = code_of(complaint)
        tally.note(subject, CheckStatus.FAIL, code, told)
        tally.fail(subject, code, complaint, test)
        return
    if blame is Grade.SETTING:
        tally.note(
            Subject(label=subject.label), CheckStatus.UNKNOWN, complaint.own_code, f"the node is misconfigured: {told}"
        )
    else:
        status = CheckStatus.WARN if blame is Grade.WATCH else CheckStatus.UNKNOWN
        tally.note(subject, status, complaint.own_code, told)
    if holds_node(complaint) and complaint.own_code is not None:
        tally.fail(Subject(), complaint.own_code, complaint, test)


def _told(test: str, complaint: Complaint | None) -> str:
    return f"{test}: {complaint.text}" if complaint is not None and complaint.text else f"{test}"


# --- the document ---------------------------------------------------------------------------------------------------


def _results(root: Mapping[str, Any], names: Mapping[int, str]) -> Iterator[_Result]:
    for category in objects(root.get("test_categories")):
        for test in objects(category.get("tests")):
            name = clean(test.get("name")) or "a test without a name"
            results = [one for result in objects(test.get("results")) for one in _of_entities(name, result, names)]
            yield from results
            yield from _summary(name, test.get("test_summary"), results)


def _of_entities(test: str, result: Mapping[str, Any], names: Mapping[int, str]) -> Iterator[_Result]:
    status = _status(result.get("status"))
    complaints = tuple(_complaints(result.get("warnings")))
    for subject in _subjects(result, names):
        yield _Result(test, subject, status, complaints)


def _summary(test: str, summary: object, results: list[_Result]) -> Iterator[_Result]:
    """What a test says as a whole counts for the node where it says more than its single results."""
    if not isinstance(summary, dict):
        return
    status = _status(summary.get("status"))
    complaints = tuple(_complaints(summary.get("warnings")))
    if complaints or status not in {one.status for one in results}:
        yield _Result(test, Subject(), status, complaints)


def _subjects(result: Mapping[str, Any], names: Mapping[int, str]) -> list[Subject]:
    """Say whom a result is about: the GPUs it counts, another entity by its label, or the node."""
    group = clean(result.get("entity_group"))
    if group and group.upper() != "GPU":
        label = f"{group} {clean(str(result.get('entity_id', '')))}".strip()
        return [Subject(label=label)] if group.casefold() != "none" else [Subject()]
    said = result.get("entity_id") if group else result.get("gpu_ids", result.get("gpu_id"))
    indexes = dict.fromkeys(_index(one) for one in _listed(said))
    counted = [index for index in indexes if index is not None]
    return [Subject(names.get(index) or device_by_index("gpu", index)) for index in counted] or [Subject()]


def _listed(said: object) -> list[object]:
    """Take a list of ids apart: `"0,1,2,3"`, one number, or a list of either."""
    many = said.split(",", MAX_DEVICES) if isinstance(said, str) else said if isinstance(said, list) else [said]
    if len(many) > MAX_DEVICES:
        raise PartUnreadable(f"a result speaks of more than {MAX_DEVICES} GPUs, which no machine has")
    return [one for one in many if one is not None and one != ""]


def _index(said: object) -> int | None:
    """Return the number of a GPU, None for a blank. Raises PartUnreadable for what is neither."""
    index = number(said)
    if index is None and is_blank(said):
        return None
    if index is None or index > MAX_ID:
        raise PartUnreadable(f"{shown(clean(str(said)[:80]))} is not the number of a GPU; send what {_TOOL} printed")
    return index


def _status(said: object) -> CheckStatus:
    word = "".join(clean(said).casefold().replace("_", " ").split())
    return _STATUSES.get(word, CheckStatus.FAIL)


def _complaints(said: object) -> Iterator[Complaint]:
    """Read the warnings of a result: objects since DCGM 3.1, texts before."""
    for one in said if isinstance(said, list) else [said]:
        if isinstance(one, dict):
            yield Complaint(
                text=clean(one.get("warning")),
                name=name_error(one.get("error_id")),
                severity=number(one.get("error_severity")),
                category=number(one.get("error_category")),
            )
        elif isinstance(one, str) and one.strip():
            yield Complaint(clean(one))


def _serials(document: Mapping[str, Any], roots: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return the serials of the GPUs by index. One that stands for two GPUs, or fills a gap, names none."""
    said: dict[int | None, object] = {}
    for group in objects(document.get("entity_groups")):
        if clean(group.get("entity_group")).upper() == "GPU":
            said |= {_index(one.get("entity_id")): one.get("serial_num") for one in objects(group.get("entities"))}
    for legacy in (place.get("GPU Device Serials") for place in (*roots, document)):
        if isinstance(legacy, dict):
            said |= {index: serial for key, serial in legacy.items() if (index := number(key)) is not None}
    usable = {
        index: serial.strip()
        for index, serial in said.items()
        if index is not None and isinstance(serial, str) and _is_serial(serial)
    }
    times = Counter(usable.values())
    return {index: serial for index, serial in usable.items() if times[serial] == 1}


def _is_serial(text: str) -> bool:
    # "<<<NOT_SUPPORTED>>>" and the like are DCGM's blanks for text (`DCGM_STR_BLANK` in dcgm_structs.h).
    return "<<<" not in text and why_unusable(IdentifierType.SERIAL, text) is None


def _version(document: Mapping[str, Any], roots: Sequence[Mapping[str, Any]]) -> str:
    metadata = document.get("metadata")
    places = (metadata if isinstance(metadata, dict) else {}, *roots, document)
    return next((found for place in places if (found := clean(place.get("version")))), "")
