# SPDX-License-Identifier: Apache-2.0
"""What do DCGM's health watches say of each GPU, as `dcgmi health -c -j` prints it?

The output names only what ails: a healthy one names nothing that was looked at. Its form is that of
https://github.com/NVIDIA/DCGM/blob/master/dcgmi/Health.cpp, which prints sentences, cut into pieces, and no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from registry.collectors.dcgm_errors import Complaint, names_in
from registry.collectors.dcgm_findings import Subject, Tally, could_not_look
from registry.collectors.dcgm_text import MAX_ID, clean, number, read_output
from registry.collectors.nvidia_smi_text import shown
from registry.collectors.running import Runner, ToolFailed
from registry.domain.checks import WORST_FIRST
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, Findings, device_by_index

HEALTH = "dcgm.health"
_TOOL = "dcgmi health"
_OVERALL = "Overall Health"

_STATUSES = {
    "healthy": CheckStatus.PASS,
    "pass": CheckStatus.PASS,
    "warning": CheckStatus.WARN,
    "warn": CheckStatus.WARN,
    # DCGM's own word for a result that is none of the others: it cannot say.
    "internal error": CheckStatus.UNKNOWN,
}
"""Any other word, `Failure` above all, is a failure."""

_SYSTEMS = {
    "memory": "dcgm_health_memory",
    "pcie": "dcgm_health_pcie",
    "nvlink": "dcgm_health_nvlink",
    "sm": "dcgm_health_sm",
    "pmu": "dcgm_health_pmu",
    "mcu": "dcgm_health_mcu",
    "inforom": "dcgm_health_inforom",
    "thermal": "dcgm_health_thermal",
    "power": "dcgm_health_power",
    "driver": "dcgm_health_driver",
}
"""The code of a failed watch whose sentence is not known, by the first word of the system's name."""
_OTHER_SYSTEM = "dcgm_health_other"


def parse(data: bytes) -> Findings:
    """Read the output of `dcgmi health -c -j`: the check `dcgm.health` for each GPU that it names, and for the node.

    GPUs are named as `gpu:<index>`, for this output has no serials. Watches that are not enabled, and a host engine
    that does not answer, make the check unknown. Raises PartUnreadable for what is cut off or is something else.
    """
    output = read_output(data, ("body",), _TOOL)
    if output.document is None:
        return could_not_look(HEALTH, output.words)
    body = output.document["body"]
    if not isinstance(body, dict) or _OVERALL not in body:
        raise PartUnreadable(f"the document has no {shown(_OVERALL)}; send the output of {_TOOL} -c -j")
    tally = Tally(HEALTH)
    for group, box in body.items():
        if group != _OVERALL:
            for entity, ailing in _children(box):
                _take(clean(group), clean(entity), ailing, tally)
    overall, worst = _status(body[_OVERALL]), tally.worst()
    if worst is None or WORST_FIRST.index(overall) < WORST_FIRST.index(worst):
        tally.note(
            Subject(), overall, message="" if overall is CheckStatus.PASS else f"overall: {_word(body[_OVERALL])}"
        )
    return tally.findings()


def collect(root: Path, run: Runner) -> Findings:  # noqa: ARG001 - all collectors are called alike
    """Ask the watches now. Raises ToolMissing and PartUnreadable."""
    try:
        return parse(run(["dcgmi", "health", "-c", "-j"]))
    except ToolFailed as failed:
        return could_not_look(HEALTH, clean(str(failed)))


def _take(group: str, entity: str, box: object, tally: Tally) -> None:
    """Enter what ails one entity: its systems, and its own word where that is worse."""
    subject = _subject(group, entity)
    said: list[CheckStatus] = []
    for part, errors in _children(box):
        if part == "Errors":
            for system, told in _children(errors):
                said.append(_take_system(subject, clean(system), told, tally))
    own = _status(box)
    if not said or WORST_FIRST.index(own) < min(map(WORST_FIRST.index, said)):
        tally.note(subject, own, message=_word(box))
        if own is CheckStatus.FAIL:
            tally.fail(subject, _OTHER_SYSTEM, Complaint(_word(box)), group)


def _take_system(subject: Subject, system: str, box: object, tally: Tally) -> CheckStatus:
    status = _status(box)
    text = _sentence(box)
    names = names_in(text)
    codes = [f"dcgm_{name.lower()}" for name in names] or [
        _SYSTEMS.get(system.casefold().partition(" ")[0], _OTHER_SYSTEM)
    ]
    tally.note(
        subject, status, None if status is CheckStatus.PASS else codes[0], f"{system}: {text}" if text else system
    )
    if status is CheckStatus.FAIL:
        for code, name in zip(codes, names or (None,), strict=True):
            tally.fail(subject, code, Complaint(text, name), system)
    return status


def _subject(group: str, entity: str) -> Subject:
    if group.upper() != "GPU":
        return Subject(label=f"{group} {entity}".strip())
    index = number(entity)
    if index is None or index > MAX_ID:
        raise PartUnreadable(f"{shown(entity)} is not the number of a GPU; send what {_TOOL} printed")
    return Subject(device_by_index("gpu", index))


def _children(box: object) -> Iterator[tuple[str, Any]]:
    inner = box.get("children") if isinstance(box, Mapping) else None
    yield from (inner if isinstance(inner, dict) else {}).items()


def _word(box: object) -> str:
    return clean(box.get("value") if isinstance(box, Mapping) else box)


def _status(box: object) -> CheckStatus:
    return _STATUSES.get(_word(box).casefold(), CheckStatus.FAIL)


def _sentence(box: object) -> str:
    """Join the pieces of at most 54 characters into which dcgmi cuts a message."""
    pieces = box.get("overflow") if isinstance(box, Mapping) else None
    return clean(
        " ".join(piece for piece in (pieces if isinstance(pieces, list) else [pieces]) if isinstance(piece, str))
    )
