# SPDX-License-Identifier: Apache-2.0
"""Which trace does a request belong to? The header `traceparent`: https://www.w3.org/TR/trace-context/."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Version ff is none. Version 00 ends with the flags; a later one may go on after another dash.
_HEADER = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-.*)?"
)


@dataclass(frozen=True, slots=True)
class TraceParent:
    """The trace, and the step in it that made the request, in lower-case hexadecimal digits."""

    trace_id: str
    parent_id: str


def parse_traceparent(header: str | None) -> TraceParent | None:
    """Read the header; None where there is none, or where it is malformed and so says nothing.

    A header that came twice is joined by a comma on its way here, and malformed.
    """
    found = _HEADER.fullmatch(header or "")
    if found is None or (found["version"] == "00" and found["more"] is not None):
        return None
    if not found["trace"].strip("0") or not found["parent"].strip("0"):
        return None
    return TraceParent(found["trace"], found["parent"])
