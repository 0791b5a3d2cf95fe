# SPDX-License-Identifier: Apache-2.0
"""Whom does a report mean that only counts its devices? The lists of the same boot say, else nobody can."""

from __future__ import annotations

from dataclasses import replace

from registry.domain.naming import Roll, has_counted, is_counted, lay_to_node
from registry.domain.reports import DeviceEntry, Report
from registry.services.lives import Arrival
from registry.store.database import Snapshot
from registry.store.lines import Line, lines_of


def as_listed(snapshot: Snapshot, arrival: Arrival, report: Report) -> Report:
    """Return the report with `gpu:3` replaced by what stands there in the node's list; without one it is the node's.

    A message of a boot that is over finds no list: the one on record may show other devices in another order. Nor does
    one that counts where a list of this boot was longer: whether a tool still counts what has gone, it does not say.
    """
    if not has_counted(report):
        return report
    roll = Roll.of([]) if arrival.is_past else _roll(snapshot, arrival)
    checks = tuple(roll.settle(one) if is_counted(one.device) else one for one in report.checks)
    failures = tuple(roll.place(one) if is_counted(one.device) else one for one in report.failures)
    return lay_to_node(replace(report, checks=checks, failures=failures))


def _roll(snapshot: Snapshot, arrival: Arrival) -> Roll:
    state = arrival.state
    lists = lines_of(snapshot, arrival.node.id)
    entries: list[DeviceEntry] = []
    partial: set[str] = set()
    for kind, said in state.listed.items():
        lines, readings = lists.get(kind, []), state.readings.get(kind, [])
        is_shorter = len(lines) < said["most"]
        if is_shorter:
            readings = []  # an index that was printed is of the shorter list, too
        if is_shorter or said["partial"]:
            partial.add(kind)
        entries += [_entry(line, dict(readings[at]) if at < len(readings) else {}) for at, line in enumerate(lines)]
    return Roll.of(entries, frozenset(partial))


def _entry(line: Line, readings: dict[str, object]) -> DeviceEntry:
    printed = {one["type"]: one["value"] for one in line["identifiers"]}
    index = readings.get("index")
    return DeviceEntry(
        kind=line["kind"],
        vendor=line["vendor"],
        slot=line["slot"],
        uuid=line["uuid"] or printed.get("uuid"),
        serial=line["serial"] or printed.get("serial"),
        readings={"index": index} if isinstance(index, int) else {},
    )
