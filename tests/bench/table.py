# SPDX-License-Identifier: Apache-2.0
"""How are the figures told? A table for each server that was measured, aims beside, then what differs between them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench import rows


@dataclass(frozen=True, slots=True)
class Block:
    """All figures of one server. `load` is how busy the machine was when they were begun."""

    engine: str
    size: str
    disk: int
    load: float
    rounds: Sequence[Sequence[Any]]
    exports: Sequence[tuple[float, int, int]]

    @property
    def title(self) -> str:
        """What was measured, in a few words."""
        return f"{self.engine}, {self.size}" + (f", fsync + {self.disk} ms" if self.disk else "")

    def median(self, row: str, field: str) -> float | None:
        """The median of a row's figures over the rounds; None for a row that was not measured."""
        found = [getattr(one, field) for figures in self.rounds for one in figures if one.row == row]
        return statistics.median(found) if found else None

    def ratio(self, row: str, other: str) -> float | None:
        """How many requests of one sort were answered for each of another, round by round; the median."""
        pairs = [{one.row: one.per_second for one in figures} for figures in self.rounds]
        found = [pair[row] / pair[other] for pair in pairs if row in pair and pair.get(other)]
        return statistics.median(found) if found else None


def show(block: Block) -> None:
    """Print the figures of one server."""
    print(f"\n{block.title} (load average {block.load:.1f} before it began)")
    heads = f"{'req/s':>7} {'p50 ms':>7} {'p99 ms':>7} {'CPU us':>7} {'db us':>6} {'events':>6}"
    print(f"  {'':47} {heads}  beside and aims")
    for row in rows.ROWS:
        if block.median(row.name, "per_second") is not None:
            print(_line(block, row))
    if block.exports:
        speed = statistics.median(one[0] for one in block.exports)
        lines, growth = block.exports[0][1], max(one[2] for one in block.exports) / 1e6
        print(
            f"  e      export, {lines:,} events: {speed:,.0f} rows/s {_verdict(speed >= rows.EXPORT_MIN)} "
            f"(aim {rows.EXPORT_MIN:,}); memory of a worker + {growth:.1f} MB"
        )


def _line(block: Block, row: rows.Row) -> str:
    fields = ("per_second", "p50", "p99", "cpu_us", "database_us", "events")
    values = [block.median(row.name, one) or 0.0 for one in fields]
    refused = sum(one.refused for figures in block.rounds for one in figures if one.row == row.name)
    speed, p50, p99, cpu, there, events = values
    text = f"  {row.name:6} {row.title:40} {speed:7.0f} {p50:7.1f} {p99:7.1f} {cpu:7.0f} {there:6.0f} {events:6.2f}  "
    text += "; ".join(_beside(block, row, speed, p99))
    return text + (f"; {refused} REFUSED" if refused else "")


def _beside(block: Block, row: rows.Row, speed: float, p99: float) -> list[str]:
    scale = rows.SLOW_DISK_SHARE if block.disk else 1
    told = []
    for at, other in enumerate(row.beside):
        ratio = block.ratio(row.name, other)
        if ratio is None:
            continue
        aim = row.aim.share * scale if row.aim.share and at == 0 and not block.disk else None
        work = (block.median(other, "cpu_us") or 0) / (block.median(row.name, "cpu_us") or 1)
        verdict = f" {_verdict(ratio >= aim)} (aim {aim:g})" if aim else ""
        told.append(f"{ratio:.2f} of {other}{verdict}, by CPU {work:.2f}")
    if row.aim.per_second and block.engine == "sqlite":
        aim = row.aim.per_second * scale
        told.append(f"{_verdict(speed >= aim)} (aim {aim:,.0f}/s)")
    if row.aim.p99 and block.engine == "sqlite" and not block.disk:
        told.append(f"p99 {_verdict(p99 < row.aim.p99)} (aim {row.aim.p99} ms)")
    return told


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def compare(blocks: Sequence[Block]) -> None:
    """Print what the size of the fleet, the engine and the disk change."""
    by_key = {(one.engine, one.size, one.disk): one for one in blocks}
    for (engine, size, disk), block in by_key.items():
        small = by_key.get((engine, "small", disk))
        if size == "large" and small:
            _compared("large fleet", small, block, 1 / rows.GROWTH_MAX)
        ours = by_key.get(("sqlite", size, disk))
        if engine == "postgresql" and ours:
            _compared("PostgreSQL", ours, block, rows.POSTGRESQL_MIN)
        fast = by_key.get((engine, size, 0))
        if disk and fast:
            _compared("slow disk", fast, block, None)


def _compared(what: str, before: Block, after: Block, aim: float | None) -> None:
    """Say what share of the speed remains, and of processor time, which a busy machine moves less."""
    told = []
    for row in rows.ROWS:
        values = [one.median(row.name, field) for field in ("per_second", "cpu_us") for one in (before, after)]
        if None in values or not values[0] or not values[2]:
            continue
        speed, work = (values[1] or 0) / values[0], (values[3] or 0) / values[2]
        verdict = f" {_verdict(speed >= aim)}" if aim and row.aim != rows.Aim() else ""
        told.append(f"{row.name} {speed:.2f} (CPU {work:.2f}){verdict}")
    told_aim = f", aim at least {aim:.2f}" if aim else ""
    print(f"\n{what}: {after.title} as a share of {before.title}{told_aim}\n  " + ", ".join(told))
