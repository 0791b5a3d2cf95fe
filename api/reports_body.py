# SPDX-License-Identifier: Apache-2.0
"""Is this JSON a report, and what does it say?

Held by hand instead of by a schema: a fleet sends some 400 of these a second, each with about forty devices, and
marshmallow takes many times longer over one than reading the JSON itself. The rules are the same as everywhere:
every wrong field is named, unknown ones are refused, and a serial is text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from api.reports_values import (
    Errors,
    optional,
    read_check,
    read_device,
    read_failure,
    read_host,
    read_id,
    read_kind,
    read_list,
    read_readings,
    read_seq,
    read_time,
    refuse_unknown,
)
from registry.domain.errors import FieldError, InvalidField
from registry.domain.glance import Glance, glance_at
from registry.domain.reports import Reading, Report

ERRORS_SHOWN = 50
"""Enough to repair a message by; a wrong tool makes the same mistake a thousand times."""

REQUIRED_IDS = ("report_id", "boot_id", "provider_id", "profile")
OPTIONAL_IDS = ("run_id", "zone")
TIMES = ("started_at", "finished_at", "sent_at", "booted_at")
LISTS = ("covers", "partial", "devices", "checks", "failures", "host", "earlier_boots")
FIELDS = frozenset({*REQUIRED_IDS, *OPTIONAL_IDS, *TIMES, *LISTS, "seq"})
"""Every field that a report may have."""


def report_of(body: object, node: str, raw: bytes) -> Report:
    """Make a report of a JSON body. `raw` is the body as it came, for its digest.

    Raises InvalidField with one entry for every wrong field, up to a limit.
    """
    errors: Errors = []
    fields = read_fields(body, errors)
    refuse(errors)
    return Report(node=node, body_digest=hashlib.sha256(raw).hexdigest(), **fields)


def glance_over(body: object, node: str, raw: bytes) -> Glance | None:
    """Look at everything in a JSON body but the lines of its list; None for one that only a full reading can judge.

    The lines keep their places in the body: `report_of` may still read it.
    """
    if not isinstance(body, dict):
        return None
    errors: Errors = []
    devices = body.get("devices")
    kinds, parts = (None, _Parts((), (), ())) if devices is None else _take_apart(devices, errors)
    fields = read_fields({**body, "devices": None}, errors)
    if errors:
        return None
    try:
        lines, firmware = orjson.dumps(parts.lines), orjson.dumps(parts.firmware)
    except orjson.JSONEncodeError:
        return None  # numbers beyond 64 bits, lone surrogates: no line may have them
    report = Report(node=node, body_digest=hashlib.sha256(raw).hexdigest(), **fields)
    return glance_at(report, kinds, parts.readings, lines=lines, firmware=firmware)


def read_lines(seen: Glance, body: Mapping[str, Any]) -> Report:
    """Return the report that was glanced over, with its lines. Raises InvalidField for what is wrong in them."""
    if seen.kinds is None:
        return seen.report
    errors: Errors = []
    lines = read_list(body["devices"], "/devices", errors)
    entries = tuple(read_device(entry, f"/devices/{at}", errors) for at, entry in enumerate(lines))
    refuse(errors)
    return replace(seen.report, entries=entries)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The lines of a list, what is flashed on each device, and what was read from it."""

    lines: Sequence[Mapping[str, Any]]
    firmware: Sequence[Any]
    readings: tuple[dict[str, Reading], ...]


def _take_apart(devices: object, errors: Errors) -> tuple[tuple[str, ...], _Parts]:
    """Part what changes from look to look from what does not. Only the readings are judged: they are always new."""
    if not isinstance(devices, list) or set(map(type, devices)) - {dict}:
        errors.append(FieldError("/devices", "must be a list of objects"))
        return (), _Parts((), (), ())
    kinds = tuple([read_kind(one.get("kind"), "/devices", errors) for one in devices])
    lines = [one if _MOVING.isdisjoint(one) else _without_moving(one) for one in devices]
    given = [one.get("readings") for one in devices]
    readings = tuple([{} if one is None else read_readings(one, "/devices", errors) for one in given])
    return kinds, _Parts(lines, [one.get("firmware") for one in devices], readings)


_MOVING = frozenset({"firmware", "readings"})


def _without_moving(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in _MOVING}


def refuse(errors: Errors) -> None:
    """Raise InvalidField when anything was found wrong."""
    if not errors:
        return
    more = len(errors) - ERRORS_SHOWN
    detail = f"{errors[0].pointer or 'the body'} {errors[0].detail}"
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    shown = tuple(errors[:ERRORS_SHOWN])
    raise InvalidField(detail + others, errors=shown, **({"errors_left_out": more} if more > 0 else {}))


def read_fields(body: object, errors: Errors) -> dict[str, Any]:
    """Return the arguments for Report that the body holds; what is wrong with it goes to `errors`."""
    if not isinstance(body, dict):
        errors.append(FieldError("", "must be a JSON object"))
        return {}
    refuse_unknown(body, FIELDS, "", errors)
    read: dict[str, Any] = {name: read_id(body.get(name), f"/{name}", errors) for name in REQUIRED_IDS}
    for name in OPTIONAL_IDS:
        read[name] = optional(body, name, "", errors, read_id)
    for name in TIMES:
        read[name] = optional(body, name, "", errors, read_time)
    read["seq"] = optional(body, "seq", "", errors, read_seq)
    covers, partial, devices, checks, failures = (
        optional(body, name, "", errors, read_list) for name in ("covers", "partial", "devices", "checks", "failures")
    )
    if covers is not None:
        read["covers"] = frozenset(read_kind(kind, f"/covers/{at}", errors) for at, kind in enumerate(covers))
    read["partial"] = frozenset(read_kind(kind, f"/partial/{at}", errors) for at, kind in enumerate(partial or ()))
    read["failures"] = tuple(read_failure(one, f"/failures/{at}", errors) for at, one in enumerate(failures or ()))
    if devices is not None:
        read["entries"] = tuple(read_device(entry, f"/devices/{at}", errors) for at, entry in enumerate(devices))
    read["checks"] = tuple(read_check(result, f"/checks/{at}", errors) for at, result in enumerate(checks or ()))
    read["host"] = optional(body, "host", "", errors, read_host) or {}
    if earlier := optional(body, "earlier_boots", "", errors, read_list):
        read["earlier_boots"] = tuple(read_id(one, f"/earlier_boots/{at}", errors) for at, one in enumerate(earlier))
    return read
