# SPDX-License-Identifier: Apache-2.0
"""How is the output of dcgmi taken in? A document, whatever stands around it, or words that say why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from registry.collectors.nvidia_smi_text import shown
from registry.domain.errors import PartUnreadable

MAX_BYTES = 8 * 1024 * 1024
"""A diagnostic of sixteen GPUs at its longest level, every test with its remarks, is below one MiB."""
MAX_ID = 65_535
"""No machine numbers its GPUs, switches or cores beyond."""
_MAX_TRIES = 16
_MAX_WORDS = 300

_BEGIN = re.compile(r"\{")
_NO_ANSWER = re.compile(
    r"\berror\b|unable to|not (?:enabled|configured|supported|running|found)|timed? ?out|fail(?:ed|ure)|refused",
    re.IGNORECASE,
)
"""How dcgmi begins to say that it could not look: `errorString` in dcgmlib/src/DcgmLib.cpp, dcgmi/Health.cpp."""

FIRST_BLANK = 0x7FFFFFF0
"""From here on a number stands for "no value", "not found", "not supported" or "not permitted", in 32 bits and in 64
(`DCGM_INT32_BLANK`, `DCGM_INT64_BLANK`): https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_structs.h"""


@dataclass(frozen=True, slots=True)
class Output:
    """What dcgmi printed: the document, or in its place the words that say that it could not look."""

    document: Mapping[str, Any] | None
    words: str = ""


def read_output(data: bytes, roots: Sequence[str], tool: str) -> Output:
    """Find the document that has one of the `roots`; text before and after it is passed over.

    Raises PartUnreadable for what is no text, is cut off, holds two documents, or is something else.
    """
    text = _decode(data, tool)
    found, end = _find(text, roots)
    if found is None:
        return _without_document(text, tool)
    if any(f'"{root}"' in text[end:] for root in roots):
        raise PartUnreadable(f"there are two documents in one part; send the output of one run of {tool}")
    return Output(found)


def clean(value: object) -> str:
    """Return a text from outside in one line, without what cannot be stored, cut to a length people read."""
    text = value if isinstance(value, str) else ""
    plain = "".join(char if char.isprintable() else " " for char in text[: 4 * _MAX_WORDS])
    plain = " ".join(plain.split())
    return plain if len(plain) <= _MAX_WORDS else f"{plain[:_MAX_WORDS]}…"


def number(value: object) -> int | None:
    """Return a number from 0 on, printed as one or as text; None for DCGM's blanks and for what is none."""
    found = _whole(value)
    return found if found is not None and 0 <= found < FIRST_BLANK else None


def is_blank(value: object) -> bool:
    """Tell whether DCGM printed a number that stands for no value."""
    found = _whole(value)
    return found is not None and found >= FIRST_BLANK


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Return the objects of a list; none when it is no list."""
    yield from (one for one in (value if isinstance(value, list) else ()) if isinstance(one, dict))


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        return int(value.strip()[:20])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _decode(data: bytes, tool: str) -> str:
    if len(data) > MAX_BYTES:
        raise PartUnreadable(f"the output is larger than {tool} makes any ({len(data)} bytes); nothing of it was read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PartUnreadable(f"the output is not text ({error.reason}); send what {tool} printed") from error
    if not text.strip():
        raise PartUnreadable(f"the output is empty; check that {tool} ran, and send what it printed")
    if "\0" in text:
        raise PartUnreadable(f"the output holds zero bytes; send what {tool} printed, as text")
    return text


def _find(text: str, roots: Sequence[str]) -> tuple[Mapping[str, Any] | None, int]:
    """Return the first document with one of the roots and where it ends.

    Only the beginnings before a root's name are tried, so that the inner parts of a document that was cut off are not
    taken for one.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    last = max(text.find(f'"{root}"') for root in roots)
    for tried, begin in enumerate(_BEGIN.finditer(text)):
        if tried >= _MAX_TRIES or begin.start() > last:
            break
        try:
            document, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            continue
        if any(root in document for root in roots):
            return document, end
    return None, 0


def _without_document(text: str, tool: str) -> Output:
    if "{" in text:
        raise PartUnreadable(f"the JSON is cut off or is not that of {tool}; send its whole output, and nothing else")
    first = next(line for line in text.splitlines() if line.strip())
    is_table = "+--" in text  # what dcgmi draws without -j: results, and no refusal to look
    if is_table or _NO_ANSWER.search(text) is None:
        raise PartUnreadable(f"{shown(first.strip())} is not the output of {tool}; run it with -j")
    return Output(None, clean(text))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
