# SPDX-License-Identifier: Apache-2.0
"""Does any output of dcgmi at all do more than be read or be refused, and in bounded time?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.collectors import dcgm_diag, dcgm_health
from registry.domain.errors import PartUnreadable
from registry.domain.failures import is_valid_code
from registry.domain.reports import Findings
from tests.collectors.dcgm import diag3, gpus4, health, warning
from tests.collectors.junk import Edit, damaged, edits_of

BROKEN = {"Memory system": ("Failure", ["Detected 3 volatile double-bit ECC", "error(s) in GPU 1."])}
FORMS: dict[str, tuple[Callable[[bytes], Findings], bytes]] = {
    "diag 4": (dcgm_diag.parse, gpus4(3, {1: ("Fail", [warning(52, 2), warning(29, 5)])})),
    "diag 3": (dcgm_diag.parse, diag3([{"gpu_ids": "0,1", "status": "FAIL", "warnings": [warning(30, None)]}])),
    "health": (dcgm_health.parse, health("Failure", GPU={"1": BROKEN}, Switch={"0": BROKEN})),
}
PIECES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"NaN", b"-1", b"9" * 5000, b'"\\ud800"', b"\0"]
    ),
)
EDITS = edits_of(PIECES)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
NAMES = st.sampled_from(
    [
        *("test_categories", "tests", "results", "gpu_ids", "entity_group", "entity_id", "status", "warnings"),
        *("error_id", "error_severity", "warning", "children", "value", "overflow", "Errors", "GPU"),
        *("test_summary", "serial_num"),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=20,
)
CALM = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(parse: Callable[[bytes], Findings], data: bytes) -> Findings | None:
    """Parse the data; None when it was refused. Any other exception ends the test."""
    try:
        found = parse(data)
    except PartUnreadable as refusal:
        reason = refusal.detail
    else:
        _look_over(found)
        return found
    assert 0 < len(reason) < 1000
    return None


def _look_over(found: Findings) -> None:
    assert found.checks
    for failure in found.failures:
        assert is_valid_code(failure.code)
        assert (failure.message or "").isprintable()


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(data=st.binary(max_size=400))
def test_bytes_are_read_or_refused(form: str, data: bytes) -> None:
    read(FORMS[form][0], data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(edits=EDITS)
def test_damaged_documents_are_read_or_refused(form: str, edits: list[Edit]) -> None:
    parse, data = FORMS[form]
    data = damaged(data, edits)
    read(parse, data)


@CALM
@given(tree=TREES)
def test_any_tree_below_the_roots_is_read_or_refused(tree: object) -> None:
    read(dcgm_diag.parse, json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": [tree]}]}}).encode())
    read(dcgm_diag.parse, json.dumps({"DCGM GPU Diagnostic": tree, "entity_groups": tree}).encode())
    read(dcgm_health.parse, json.dumps({"body": {"Overall Health": tree, "GPU": tree}}).encode())


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(share=st.floats(0, 0.99))
def test_a_document_that_stops_early_is_refused(form: str, share: float) -> None:
    parse, data = FORMS[form]

    assert read(parse, data[: int(len(data) * share)]) is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"DCGM Diagnostic":' * 400_000,
        b'{"DCGM Diagnostic": ' + b"[" * 2_000_000,
        b'{"a":' * 1_000_000 + b'"DCGM Diagnostic"',
        b"{" * 4_000_000,
        b'{"DCGM Diagnostic": {"x": ' + b"9" * 4_000_000 + b"}}",
        b" " * 9_000_000,
        diag3([{"gpu_ids": "0," * 1_000_000, "status": "PASS"}]),
    ],
    ids=["nested roots", "nested lists", "nested before the root", "braces", "a long number", "blanks", "ids"],
)
def test_what_was_made_to_hurt_is_refused_in_bounded_time(data: bytes) -> None:
    begun = time.monotonic()

    with pytest.raises(PartUnreadable):
        dcgm_diag.parse(data)

    assert time.monotonic() - begun < 10
