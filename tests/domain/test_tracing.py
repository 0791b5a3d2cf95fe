# SPDX-License-Identifier: Apache-2.0
"""Is a trace read as the W3C says, and is everything that only looks like one left out?"""

from __future__ import annotations

import pytest

from registry.domain.tracing import TraceParent, parse_traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header",
    [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01", f"01-{TRACE}-{PARENT}-09-more"],
    ids=["sampled", "not sampled", "a later version", "a later version that says more"],
)
def test_a_trace_is_read(header: str) -> None:
    assert parse_traceparent(header) == TraceParent(TRACE, PARENT)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01.",
        f"01-{TRACE}-{PARENT}-01more",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f"00_{TRACE}_{PARENT}_01",
        f" 00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE}-{PARENT}-01,00-{TRACE}-{PARENT}-01",
    ],
)
def test_what_is_malformed_says_nothing(header: str | None) -> None:
    assert parse_traceparent(header) is None
