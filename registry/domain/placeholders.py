# SPDX-License-Identifier: Apache-2.0
"""Which printed texts are no value at all, and why?

Each `why_…` answers with words that follow "because it ", or None for a text that can identify something.
"""

from __future__ import annotations

import re
from itertools import pairwise

_REMARK = re.compile(r"\[.*\]|<.*>|\(.*\)")
_MASK = re.compile(r"x{4,}|\*{2,}|#{2,}|\?{2,}|_{4,}")
_EXPONENT = re.compile(r"\d+[.,]\d+e[+-]?\d+|\d+e\+\d+")

_PLACEHOLDERS = frozenset(
    {
        # What NVML and nvidia-smi put where they have no value; in some outputs without the square brackets.
        *("n/a", "na", "n.a", "err!", "err", "error", "unknown error", "unknown", "not supported", "not available"),
        *("not applicable", "not found", "function not found", "insufficient permissions", "no permission"),
        *("gpu is lost", "gpu requires reset", "gpu access blocked by the operating system", "deprecated"),
        *("requested functionality has been deprecated", "invalid", "invalid argument", "uninitialized"),
        *("timeout", "failed", "busy", "success"),
        # What firmware carries where nobody filled in the board's maker, as /sys/class/dmi/id and dmidecode show it.
        *("to be filled by o.e.m", "to be filled by oem", "default string", "default", "o.e.m", "oem"),
        *("not specified", "unspecified", "not provided", "not present", "not set", "not defined", "undefined"),
        *("system serial number", "chassis serial number", "base board serial number", "baseboard serial number"),
        *("board serial number", "serial number", "serial", "empty", "unused", "no serial", "no serial number"),
        # What owners and programs write instead of a value.
        *("none", "null", "nil", "nan", "redacted", "masked", "hidden", "removed", "anonymized", "anonymised", "tbd"),
        *("", "-", "--", "?", "x", "xx", "xxx", "*"),
    }
)
"""Words that fill a gap, lower case, one blank between words, without a full stop at the end."""

_RUN_TOGETHER = frozenset(word.replace(" ", "") for word in _PLACEHOLDERS)
"""The same where a firmware leaves the blanks out, or writes `_` for them."""

_SEQUENCE_LENGTH = 10
"""Fewer counting digits than this may be a real short serial (`12345`); ten or more are somebody's mask."""

_SPECIMEN_UUID = re.compile(r"(?:gpu-)?12345678-aaaa-bbbb-cccc-[0-9a-f]{12}")
"""The UUID that owners of public captures wrote over their own (telegraf's `dual_a5000-v13.xml` and others)."""


def is_placeholder(text: str | None) -> bool:
    """Return True for nothing at all and for words that only fill a gap, in any case and padding. `0` is not one."""
    return why_no_value(text) is not None


def is_mig_name(text: str | None) -> bool:
    """Return True when the text names a MIG slice, in the form of any driver."""
    return (text or "").strip().lower().startswith("mig-")


def squeezed(text: str) -> str:
    """Return the text in lower case without any blanks."""
    return "".join(text.split()).lower()


def why_no_value(text: str | None) -> str | None:
    """Judge words only: a number, even zero, passes."""
    plain = " ".join((text or "").split()).lower()
    if not plain:
        return "is absent"
    if _REMARK.fullmatch(plain):
        return "is a tool's remark in brackets"
    if squeezed(plain).replace("_", "").rstrip(".") in _RUN_TOGETHER:
        return "is a placeholder"
    return None


def why_nobody(text: str | None) -> str | None:
    """Judge what is shared by all that names something: no gap filler, no zeros, no mask."""
    reason = why_no_value(text)
    if reason is not None:
        return reason
    if _is_sentence(text or ""):
        return "is words without a number"
    plain = squeezed(text or "")
    digits = re.sub(r"[^0-9a-z]", "", plain.removeprefix("0x"))
    if digits and not digits.strip("0"):
        return "is all zeros"
    return "is masked" if _MASK.search(plain) else None


def why_not_a_serial(text: str | None) -> str | None:
    """Judge a printed serial: also no counted-up mask, and no number that a spreadsheet has rounded."""
    plain = squeezed(text or "")
    if _EXPONENT.fullmatch(plain):
        return "is a number in exponent form, whose digits are lost"
    if _is_counting(plain):
        return "is a masked sequence"
    return why_nobody(text)


def why_not_a_uuid(text: str | None) -> str | None:
    """Judge a unit's UUID: also no MIG name, no specimen, and not the all-ones UUID (RFC 9562, 5.10).

    What follows `GPU-` is judged alone: rocminfo prints `GPU-XX` where it has none.
    """
    if is_mig_name(text):
        return "names a MIG slice"
    plain = squeezed(text or "")
    if _SPECIMEN_UUID.fullmatch(plain):
        return "is masked"
    bare = plain.removeprefix("gpu-")
    if bare and not bare.replace("-", "").strip("f"):
        return "is all ones"
    return why_nobody(text) or why_nobody(bare)


def _is_counting(plain: str) -> bool:
    """Say whether the digits count upwards and wrap from 9 to 0, as `0123456789012` does."""
    if len(plain) < _SEQUENCE_LENGTH or not (plain.isascii() and plain.isdigit()):
        return False
    return all((int(left) + 1) % 10 == int(right) for left, right in pairwise(plain))


def _is_sentence(text: str) -> bool:
    """Say whether this is several words and no digit: NVML's sentences about a GPU are many, and no number is one."""
    return len(text.split()) > 1 and not any(character.isdigit() for character in text)
