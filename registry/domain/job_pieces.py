# SPDX-License-Identifier: Apache-2.0
"""Which part of a stretch of work lies above a step? Work is kept in pieces that can be cut, to the microsecond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from registry.domain.failures import Cause
from registry.domain.goodput import TimeKind


class Open(NamedTuple):
    """Time whose steps are not told yet."""

    bucket: int
    micros: int


class Piece(NamedTuple):
    """Time within one bucket in which a job went from step `low` to step `high`, with so many nodes and devices.

    Steps may be coarse: a piece within one step has `low == high`, and stands for work on the step that follows.
    """

    bucket: int
    kind: TimeKind
    cause: Cause | None
    nodes: int
    devices: int
    low: int
    high: int
    micros: int


def pieces_of(
    spans: Sequence[Open],
    low: int,
    high: int,
    nodes: int,
    devices: int,
    *,
    excess: int,
    cause: Cause | None,
) -> Iterator[Piece]:
    """Spread steps evenly over time, and `excess` microseconds of it, which are slow by `cause`, likewise."""
    total, passed, step, slow = sum(one.micros for one in spans), 0, low, 0
    for bucket, micros in spans:
        passed += micros
        upto = low + (high - low) * passed // total
        slow_upto = excess * passed // total
        slowed = slow_upto - slow
        if micros - slowed:
            yield Piece(bucket, TimeKind.PRODUCTIVE, None, nodes, devices, step, upto, micros - slowed)
        if slowed:
            yield Piece(bucket, TimeKind.SLOW, cause, nodes, devices, step, upto, slowed)
        step, slow = upto, slow_upto


def cut_at(piece: Piece, step: int) -> tuple[Piece | None, Piece | None]:
    """Cut a piece into what lies up to a step and what lies above it."""
    if piece.high <= step and (piece.low < piece.high or piece.low < step):
        return piece, None
    if piece.low >= step:
        return None, piece
    micros = piece.micros * (step - piece.low) // (piece.high - piece.low)
    below = piece._replace(high=step, micros=micros) if micros else None
    above = piece._replace(low=step, micros=piece.micros - micros) if micros < piece.micros else None
    return below, above


def cut_above(piece: Piece, step: int) -> Piece | None:
    """Return what of a piece lies above a step, if anything does."""
    return cut_at(piece, step)[1]
