# SPDX-License-Identifier: Apache-2.0
"""Outputs of dcgmi, made up: the forms are DCGM's, the values are ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SERIALS = tuple(f"17003210000{at:02d}" for at in range(8))


def warning(error: object = 52, severity: object = 2, text: str = "a made-up complaint") -> dict[str, Any]:
    """One warning of a result; None leaves a member out."""
    said = {"warning": text, "error_id": error, "error_category": 10, "error_severity": severity}
    return {name: value for name, value in said.items() if value is not None}


def diag4(
    results: Iterable[tuple[str, int, str, Sequence[Mapping[str, Any]]]],
    serials: Sequence[str | None] = SERIALS,
    test: str = "memory",
    **more: Any,
) -> bytes:
    """A diagnostic as DCGM 4 writes it: (entity group, entity, status, warnings) of one test."""
    shown = [
        {"entity_group": group, "entity_group_id": 0, "entity_id": entity, "status": status}
        | ({"warnings": list(warnings)} if warnings else {})
        for group, entity, status, warnings in results
    ]
    entities = [
        {"entity_id": at, "device_id": "2330"} | ({"serial_num": serial} if serial is not None else {})
        for at, serial in enumerate(serials)
    ]
    root = {"test_categories": [{"category": "Hardware", "tests": [{"name": test, "results": shown}]}]}
    document = {
        "DCGM Diagnostic": {**root, **more},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 0, "entities": entities}],
        "metadata": {"version": "4.5.1"},
    }
    return json.dumps(document, indent=1).encode()


def gpus4(
    count: int = 8, failing: Mapping[int, tuple[str, Sequence[Mapping[str, Any]]]] | None = None, **more: Any
) -> bytes:
    """A diagnostic of DCGM 4 in which every GPU passes but those named."""
    failing = failing or {}
    rows = [("GPU", at, *failing.get(at, ("Pass", ()))) for at in range(count)]
    return diag4([(group, at, status, warnings) for group, at, status, warnings in rows], **more)


def diag3(results: Iterable[Mapping[str, Any]], test: str = "PCIe", **more: Any) -> bytes:
    """A diagnostic as DCGM 3 writes it, behind the sentence that its dcgmi begins with."""
    category = {"category": "Integration", "tests": [{"name": test, "results": list(results)}]}
    document = {"DCGM GPU Diagnostic": {"test_categories": [category], "version": "3.3.9", **more}}
    return b"Successfully ran diagnostic for group.\n" + json.dumps(document, indent=2).encode()


def health(overall: str, **groups: Mapping[str, Mapping[str, tuple[str, Sequence[str]]]]) -> bytes:
    """A health report: `GPU={"2": {"Memory system": ("Failure", ["pieces", "of text"])}}`."""
    body: dict[str, Any] = {"Overall Health": {"value": overall}}
    for group, entities in groups.items():
        body[group] = {"children": {entity: _entity(systems) for entity, systems in entities.items()}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]}, indent=8).encode()


def _entity(systems: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, Any]:
    errors = {name: {"value": value, "overflow": list(pieces)} for name, (value, pieces) in systems.items()}
    values = [value for value, _ in systems.values()]
    worst = "Failure" if "Failure" in values else values[0]
    return {"value": worst, "children": {"Errors": {"children": errors}}}
