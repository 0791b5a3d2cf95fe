# SPDX-License-Identifier: Apache-2.0
"""What is read from a list that somebody pasted, and what is said of lines that name nothing?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.errors import InvalidField
from registry.domain.identifiers import IdentifierType
from registry.domain.pasted import ASKED_MAX, Asked, parse_pasted

SERIAL, UUID = IdentifierType.SERIAL, IdentifierType.UUID


def test_every_line_is_a_name_to_the_character() -> None:
    found = parse_pasted("node-a\r\n\r\n  0322218049033 \nGPU-1\n")
    assert found == (
        Asked(1, "node-a", word="node-a"),
        Asked(3, "0322218049033", word="0322218049033"),
        Asked(4, "GPU-1", word="GPU-1"),
    )


@pytest.mark.parametrize("mark", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_a_line_of_several_fields_is_several_names(mark: str) -> None:
    assert [(one.number, one.word) for one in parse_pasted(f"a{mark} b{mark}\nc")] == [(1, "a"), (1, "b"), (2, "c")]


def test_columns_that_have_names_are_read_as_they_say() -> None:
    text = 'Host,gpu_uuid, Serial ,power.draw [W]\nnode-a,"GPU-1",0322218049033,70\nnode-b,N/A,[N/A],70\nnode-c,,,\n'
    assert [(one.number, one.node, one.identifiers) for one in parse_pasted(text)] == [
        (2, "node-a", ((UUID, "GPU-1"), (SERIAL, "0322218049033"))),
        (3, "node-b", ()),
        (4, "node-c", ()),
    ]


def test_one_column_with_a_name_is_a_table() -> None:
    assert [one.identifiers for one in parse_pasted("serial\n1650000000001")] == [((SERIAL, "1650000000001"),)]


def test_a_node_may_be_called_what_would_be_a_gap_elsewhere() -> None:
    assert [(one.node, one.problem) for one in parse_pasted("node,serial\nnone,N/A")] == [("none", None)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1.65E+12,", "exponent form"),
        ("0000000000000,", "all zeros"),
        (",", "neither a node nor a serial nor a UUID"),
        ("1,2,3", "has 3 fields where the first line has 2"),
        ("x" * 300 + ",", "more than 256 characters"),
    ],
)
def test_a_row_that_cannot_be_used_says_why_and_spoils_no_other(row: str, words: str) -> None:
    bad, good = parse_pasted(f"serial,uuid\n{row}\n1650000000001,")
    assert bad.problem is not None
    assert words in bad.problem
    assert good.identifiers == ((SERIAL, "1650000000001"),)


def test_a_list_that_nvidia_smi_printed_gives_its_uuids() -> None:
    text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa0001-0000-0000-0000-000000000001)"
    assert [one.word for one in parse_pasted(text)] == ["GPU-aaaa0001-0000-0000-0000-000000000001"]


@pytest.mark.parametrize(
    ("text", "words"),
    [(" \n\t\n", "empty"), ("serial,uuid\n", "nothing below"), ("x\n" * (ASKED_MAX + 1), "at most 1000")],
    ids=["nothing", "only a head", "too many"],
)
def test_a_list_that_cannot_be_used_as_a_whole_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as refused:
        parse_pasted(text)
    assert [one.pointer for one in refused.value.errors] == ["/names"]


def test_a_quote_that_is_never_closed_is_part_of_a_name() -> None:
    assert [one.word for one in parse_pasted('"open\nnode-a')] == ['"open', "node-a"]


@given(st.text(max_size=300))
def test_whatever_is_pasted_names_something_on_every_line_or_is_refused(text: str) -> None:
    try:
        found = parse_pasted(text)
    except InvalidField:
        return
    assert found
    assert all(one.word or one.node or one.identifiers or one.problem for one in found)
    assert [one.number for one in found] == sorted(one.number for one in found)
