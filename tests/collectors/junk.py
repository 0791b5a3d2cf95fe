# SPDX-License-Identifier: Apache-2.0
"""How is the output of a tool spoilt, so that a parser must read or refuse it?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hypothesis import strategies as st

Edit: TypeAlias = tuple[float, int, bytes]
"""Where, as a share of the whole; how many bytes go; and what stands there instead."""


def edits_of(pieces: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[Edit]]:
    """Make a few edits with these pieces."""
    return st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), pieces), min_size=1, max_size=6)


def damaged(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Put the edits into the data, one after the other."""
    for place, length, piece in edits:
        at = int(place * len(data))
        data = data[:at] + piece + data[at + length :]
    return data
