# SPDX-License-Identifier: Apache-2.0
"""Is the tree the one of RFC 9162, do its proofs hold, and does nothing else pass for a proof?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.merkle import (
    EMPTY_ROOT,
    Frontier,
    HashOf,
    consistency_path,
    inclusion_path,
    is_consistent,
    join,
    leaf_of,
    peaks_of,
    root_by_inclusion,
    root_of,
)

CONTENTS = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""Leaves and roots that implementations of Certificate Transparency agree on:
https://github.com/google/certificate-transparency/blob/master/cpp/merkletree/merkle_tree_test.cc."""


def naive(leaves: Sequence[bytes]) -> bytes:
    """The definition itself, RFC 9162, 2.1.1, over leaves that are hashed already."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    cut = 1
    while cut * 2 < len(leaves):
        cut *= 2
    return hashlib.sha256(b"\x01" + naive(leaves[:cut]) + naive(leaves[cut:])).digest()


def make_leaves(count: int) -> list[bytes]:
    return [leaf_of(f"{number:064x}") for number in range(count)]


def over(leaves: Sequence[bytes]) -> HashOf:
    return lambda start, end: naive(leaves[start:end])


def rfc_leaves(count: int) -> list[bytes]:
    return [hashlib.sha256(b"\x00" + bytes.fromhex(one)).digest() for one in CONTENTS[:count]]


@pytest.mark.parametrize("count", range(1, 9))
def test_the_roots_are_those_that_everybody_gets(count: int) -> None:
    assert root_of(rfc_leaves(count)).hex() == ROOTS[count - 1]


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    assert root_of([]) == EMPTY_ROOT == naive([])


def test_a_leaf_holds_the_hash_of_an_entry_as_bytes() -> None:
    assert leaf_of("ab" * 32) == hashlib.sha256(b"\x00" + b"\xab" * 32).digest()
    with pytest.raises(ValueError, match="hex"):
        leaf_of("not hex")


@pytest.mark.parametrize(
    ("index", "path"),
    [
        (0, ["b", "h", "l"]),
        (3, ["c", "g", "l"]),
        (4, ["f", "j", "k"]),
        (6, ["i", "k"]),
    ],
)
def test_the_proofs_of_inclusion_are_those_of_the_rfc(index: int, path: list[str]) -> None:
    """The example of RFC 9162, 2.1.5: seven leaves, whose nodes are named there."""
    names = name_nodes()

    assert inclusion_path(index, 7, over(make_leaves(7))) == [names[one] for one in path]


@pytest.mark.parametrize(
    ("first", "path"), [(3, ["c", "d", "g", "l"]), (4, ["l"]), (6, ["i", "j", "k"])], ids=["3", "4", "6"]
)
def test_the_proofs_of_consistency_are_those_of_the_rfc(first: int, path: list[str]) -> None:
    names = name_nodes()

    assert consistency_path(first, 7, over(make_leaves(7))) == [names[one] for one in path]


def name_nodes() -> dict[str, bytes]:
    """The nodes as the RFC's picture names them: a to f and j are leaves, g to i pairs, k and l halves."""
    leaves = make_leaves(7)
    names = dict(zip("abcdefj", leaves, strict=True))
    names["g"], names["h"] = join(leaves[0], leaves[1]), join(leaves[2], leaves[3])
    names["i"] = join(leaves[4], leaves[5])
    names["k"] = join(names["g"], names["h"])
    names["l"] = join(names["i"], names["j"])
    return names


@given(st.integers(0, 200))
def test_a_frontier_agrees_with_the_definition(count: int) -> None:
    leaves = make_leaves(count)
    tree = Frontier()
    for number, leaf in enumerate(leaves):
        end = number + 1
        complete = [naive(leaves[end - (1 << level) : end]) for level in range(8) if end % (1 << level) == 0]
        assert tree.append(leaf) == complete

    assert tree.root() == naive(leaves)
    assert tree.peaks == [naive(leaves[start:end]) for start, end in peaks_of(count)]
    assert Frontier(count, tree.peaks).root() == tree.root()


def test_a_frontier_does_not_begin_with_too_few_peaks() -> None:
    with pytest.raises(ValueError, match="peaks"):
        Frontier(3, [b"x"])


@given(st.data())
def test_every_leaf_can_be_proved_and_nothing_else(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 150))
    index = data.draw(st.integers(0, size - 1))
    leaves = make_leaves(size)
    root, path = naive(leaves), inclusion_path(index, size, over(leaves))

    assert root_by_inclusion(leaves[index], index, size, path) == root
    assert root_by_inclusion(leaf_of("ff" * 32), index, size, path) != root
    assert root_by_inclusion(leaves[index], index, size, [*path, root]) is None
    if path:
        assert root_by_inclusion(leaves[index], index, size, path[:-1]) != root
        assert root_by_inclusion(leaves[index], index, size, [join(path[0], path[0]), *path[1:]]) != root
    other = data.draw(st.integers(0, size - 1))
    if other != index:
        assert root_by_inclusion(leaves[index], other, size, path) != root


@given(st.data())
def test_a_tree_that_goes_on_from_another_can_be_proved_to_and_no_other(data: st.DataObject) -> None:
    second = data.draw(st.integers(1, 120))
    first = data.draw(st.integers(1, second))
    leaves = make_leaves(second)
    old, new, path = naive(leaves[:first]), naive(leaves), consistency_path(first, second, over(leaves))

    assert is_consistent(first, old, second, new, path)
    assert not is_consistent(first, EMPTY_ROOT, second, new, path)
    assert not is_consistent(first, old, second, EMPTY_ROOT, path)
    assert not is_consistent(first, old, second, new, [*path, new])
    if first < second:
        assert not is_consistent(first, old, second, new, path[:-1])
        changed = make_leaves(second)
        changed[data.draw(st.integers(0, first - 1))] = leaf_of("ff" * 32)
        lying = consistency_path(first, second, over(changed))
        assert not is_consistent(first, old, second, naive(changed), lying)


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_what_is_not_in_the_tree_has_no_proof(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="not in a tree"):
        inclusion_path(index, size, over(make_leaves(size)))
    assert root_by_inclusion(EMPTY_ROOT, index, size, []) is None


@pytest.mark.parametrize(("first", "second"), [(0, 3), (4, 3)])
def test_a_shorter_tree_goes_on_from_nothing(first: int, second: int) -> None:
    with pytest.raises(ValueError, match="does not go on"):
        consistency_path(first, second, over(make_leaves(second)))
    assert not is_consistent(first, EMPTY_ROOT, second, EMPTY_ROOT, [EMPTY_ROOT])
