# SPDX-License-Identifier: Apache-2.0
"""What do the printed words of one GPU mean, and which checks do they decide?

The words are those of NVML's error strings (`nvmlErrorString`), which nvidia-smi prints in place of a value, with or
without square brackets: https://docs.nvidia.com/deploy/nvml-api/group__nvmlErrorReporting.html
A value that cannot be read never becomes a zero: the check over it is `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from registry.domain.reports import CheckResult, CheckStatus


class Word(StrEnum):
    """What sort of thing stands where a value is expected."""

    VALUE = "value"
    """A value."""
    NOT_APPLICABLE = "not_applicable"
    """This part has nothing of the kind."""
    ABSENT = "absent"
    """Nothing was printed, or the library is too old to know the question."""
    UNREADABLE = "unreadable"
    """The part has it, and it could not be read now."""
    GONE = "gone"
    """The GPU does not answer."""


_WORDS: Mapping[str, Word] = {
    "n/a": Word.NOT_APPLICABLE,
    "not supported": Word.NOT_APPLICABLE,
    "not applicable": Word.NOT_APPLICABLE,
    "": Word.ABSENT,
    "function not found": Word.ABSENT,
    "not found": Word.ABSENT,
    "requested functionality has been deprecated": Word.ABSENT,
    "unknown error": Word.UNREADABLE,
    "insufficient permissions": Word.UNREADABLE,
    "timeout": Word.UNREADABLE,
    "redacted": Word.UNREADABLE,
    "err!": Word.GONE,
}
_GONE_STARTS = ("gpu is lost", "gpu requires reset")
_LONGEST_WORD = 80
"""Longer texts are values; the longest of NVML's sentences about a lost GPU begin with the words above."""

_COUNT = re.compile(r"\d{1,19}")
_BLANKS = range(0x7FFFFFF0, 0x80000000), range(0x7FFFFFFFFFFFFFF0, 0x8000000000000000)
"""DCGM's blank values for 32 and 64 bits (`DCGM_INT32_BLANK`, `DCGM_INT64_BLANK` and the 15 above each):
https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_structs.h"""
_BLANK_NOT_SUPPORTED = 2
"""`DCGM_INT64_NOT_SUPPORTED` is the blank plus two."""

ECC, ROW_REMAP, RECOVERY_ACTION, RESPONDING = "gpu.ecc", "gpu.row_remap", "gpu.recovery_action", "gpu.responding"
DOUBLE_BIT = "gpu.ecc.dbe"
ALL_CHECKS = frozenset({ECC, ROW_REMAP, RECOVERY_ACTION, RESPONDING})


@dataclass(frozen=True, slots=True)
class Printed:
    """What one document prints about one GPU: texts under our names, as printed.

    A name that is missing was not printed. `gone` is the text that says the GPU does not answer, None when it does.
    `slot_header` among the names is the address in the heading of the GPU's block, used where the body has none.
    """

    texts: Mapping[str, str]
    gone: str | None = None
    slices: tuple[str, ...] = field(default=())


def classify(text: str | None) -> Word:
    """Return what sort of thing the text is; brackets, case and surrounding blanks do not matter."""
    if text is None:
        return Word.ABSENT
    if len(text) > _LONGEST_WORD and not text.isspace():
        return Word.VALUE
    plain = text.strip().strip("[]").strip().rstrip(".").casefold()
    if plain.startswith(_GONE_STARTS):
        return Word.GONE
    return _WORDS.get(plain, Word.VALUE)


def read_count(text: str | None) -> int | Word:
    """Return a counter as a number that is not negative, or the word that stands in its place."""
    word = classify(text)
    if text is None or word is not Word.VALUE:
        return word
    if not _COUNT.fullmatch(text.strip()) or not text.isascii():
        return Word.UNREADABLE
    number = int(text)
    for blanks in _BLANKS:
        if number in blanks:
            is_unsupported = number - blanks.start == _BLANK_NOT_SUPPORTED
            return Word.NOT_APPLICABLE if is_unsupported else Word.UNREADABLE
    return number if number <= _BLANKS[-1].stop else Word.UNREADABLE


def add_up(terms: Iterable[str]) -> str | None:
    """Return the sum of several counters as one text, None for no terms at all.

    A sum above zero stands even where a term could not be read. Otherwise one unreadable term makes the whole
    unreadable, and terms that do not apply count only when no other is there.
    """
    total, other, has_number = 0, None, False
    for text in terms:
        count = read_count(text)
        if isinstance(count, int):
            total, has_number = total + count, True
        elif other is None or count is not Word.NOT_APPLICABLE:
            other = text
    if total or (has_number and read_count(other) in {Word.NOT_APPLICABLE, Word.ABSENT}):
        return str(total)
    return other


def derive_checks(gpu: Printed, device: str | None, asked: frozenset[str] = ALL_CHECKS) -> tuple[CheckResult, ...]:
    """Return the results of the checks that were asked for. `device` names the GPU in them.

    A GPU that does not answer passes none of them: what was still readable of it proves nothing.
    """
    results = []
    for name, judge in _JUDGES.items():
        if name not in asked:
            continue
        status, code, message = judge(gpu)
        if gpu.gone is not None and status is not CheckStatus.FAIL:
            status, code, message = CheckStatus.UNKNOWN, None, "the GPU does not answer"
        count = read_count(gpu.texts.get("ecc_volatile_uncorrected")) if code == DOUBLE_BIT else None
        result = CheckResult(name=name, status=status, device=device, code=code, message=message)
        results.append(replace(result, count=count) if isinstance(count, int) else result)
    return tuple(results)


_Verdict = tuple[CheckStatus, str | None, str | None]


def _judge_ecc(gpu: Printed) -> _Verdict:
    """Judge the counters, and from driver 535 on whether the SRAM has had more errors than NVIDIA lets pass.

    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/
    """
    threshold = _read_flag(gpu.texts.get("sram_threshold_exceeded"))
    if threshold is True:
        return CheckStatus.FAIL, "gpu.sram.threshold", "the SRAM has had more uncorrectable errors than it may"
    volatile = read_count(gpu.texts.get("ecc_volatile_uncorrected"))
    aggregate = read_count(gpu.texts.get("ecc_aggregate_uncorrected"))
    if isinstance(volatile, int) and volatile > 0:
        return CheckStatus.FAIL, DOUBLE_BIT, f"{volatile} uncorrectable memory errors since the driver was loaded"
    if threshold in {Word.UNREADABLE, Word.GONE}:
        return CheckStatus.UNKNOWN, None, f"whether the SRAM is over its threshold is {threshold}"
    for count, what in ((volatile, "volatile"), (aggregate, "aggregate")):
        if not isinstance(count, int) and count is not Word.NOT_APPLICABLE:
            return CheckStatus.UNKNOWN, None, f"the {what} counter of uncorrectable memory errors is {count}"
    if isinstance(aggregate, int) and aggregate > 0:
        return CheckStatus.WARN, None, f"{aggregate} uncorrectable memory errors in the life of the board"
    return (CheckStatus.PASS if isinstance(volatile, int) else CheckStatus.NOT_APPLICABLE), None, None


_MEMORY_FLAGS: tuple[tuple[str, str, str], ...] = (
    ("remap_failure", "gpu.row_remap.failed", "a row of memory could not be remapped; the board is for return"),
    ("remap_pending", "gpu.row_remap.pending", "a row of memory waits to be remapped; reset the GPU"),
    ("retired_pending", "gpu.page_retirement", "a page of memory waits to be retired; reset the GPU"),
)


def _judge_row_remap(gpu: Printed) -> _Verdict:
    """Judge both ways of taking bad memory out of use: remapped rows from Ampere on, retired pages before.

    A part has one of them, so one that is read whole is enough; but a block that is merely missing proves nothing.
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/
    """
    flags = {name: _read_flag(gpu.texts.get(name)) for name, _, _ in _MEMORY_FLAGS}
    for name, code, message in _MEMORY_FLAGS:
        if flags[name] is True:
            return CheckStatus.FAIL, code, message
    remap = {flags["remap_failure"], flags["remap_pending"]}
    retired = flags["retired_pending"]
    without = {Word.NOT_APPLICABLE, Word.ABSENT}
    if {retired} | remap <= {Word.NOT_APPLICABLE}:
        return CheckStatus.NOT_APPLICABLE, None, None
    if remap == {False} and (retired is False or retired in without):
        return CheckStatus.PASS, None, None
    if retired is False and remap <= without:
        return CheckStatus.PASS, None, None
    return CheckStatus.UNKNOWN, None, "the state of remapped rows and retired pages could not be read"


def _read_flag(text: str | None) -> bool | Word:
    word = classify(text)
    if text is None or word is not Word.VALUE:
        return word
    count = read_count(text)
    if count is Word.NOT_APPLICABLE:
        return count
    return {"yes": True, "no": False, "1": True, "0": False}.get(text.strip().casefold(), Word.UNREADABLE)


def _judge_recovery_action(gpu: Printed) -> _Verdict:
    text = gpu.texts.get("recovery_action")
    word = classify(text)
    if text is None or word in {Word.ABSENT, Word.NOT_APPLICABLE}:
        return CheckStatus.NOT_APPLICABLE, None, None
    if word is not Word.VALUE:
        return CheckStatus.UNKNOWN, None, "the recovery action could not be read"
    if text.strip().casefold() == "none":
        return CheckStatus.PASS, None, None
    return CheckStatus.FAIL, None, f"the driver asks for the recovery action {text.strip()}"


_GONE_CODES = {
    "gpu is lost": "gpu.fallen_off_bus",
    "requires reset": "gpu.requires_reset",
    "unable to determine the device handle": "gpu.nvml_unknown",
}
"""What is wrong with a GPU that does not answer, by words in what is printed in its place."""


def _judge_responding(gpu: Printed) -> _Verdict:
    if gpu.gone is None:
        return CheckStatus.PASS, None, None
    said = gpu.gone.casefold()
    code = next((code for words, code in _GONE_CODES.items() if words in said), None)
    return CheckStatus.FAIL, code, f"nvidia-smi says: {gpu.gone.strip()[:200]}"


_JUDGES: Mapping[str, Callable[[Printed], _Verdict]] = {
    ECC: _judge_ecc,
    ROW_REMAP: _judge_row_remap,
    RECOVERY_ACTION: _judge_recovery_action,
    RESPONDING: _judge_responding,
}
