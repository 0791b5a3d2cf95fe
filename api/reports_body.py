# SPDX-License-Identifier: Apache-2.0
"""Is this JSON a report, and what does it say?

Held by hand instead of by a schema: a fleet sends some 400 of these a second, each with about forty devices, and
marshmallow takes many times longer over one than reading the JSON itself. The rules are the same as everywhere:
every wrong field is named, unknown ones are refused, and a serial is text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from api.text import TEXT_LENGTH, evidence_of, is_scalar, pointer, whole_number, why_not_id, why_not_text
from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import FieldError, InvalidField
from registry.domain.failures import is_valid_code
from registry.domain.glance import Glance, glance_at
from registry.domain.identifiers import is_mig_name, normalise_slot
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Kind, Reading, Report, ReportedFailure
from registry.domain.times import parse_rfc3339

ENTRIES_MAX = 1024
"""Most devices, and most check results, in one report: far above any machine."""

FIRMWARE_MAX = 64
READINGS_MAX = 256
VALUE_LENGTH = 256
"""Longest identifier, model or version, in characters."""

ERRORS_SHOWN = 50
"""Enough to repair a message by; a wrong tool makes the same mistake a thousand times."""

REQUIRED_IDS = ("report_id", "boot_id", "provider_id", "profile")
OPTIONAL_IDS = ("run_id", "zone")
TIMES = ("started_at", "finished_at", "sent_at")
LISTS = ("covers", "partial", "devices", "checks", "failures", "host")
FIELDS = frozenset({*REQUIRED_IDS, *OPTIONAL_IDS, *TIMES, *LISTS, "seq"})
"""Every field that a report may have."""

HOST_SOURCES = ("dmi", "redfish", "chassis")

_DEVICE_TEXTS = frozenset(
    (
        *("serial", "uuid", "model", "part_number", "module_id", "unique_id", "asset_tag", "name", "mac", "gid"),
        "node_guid",
    )
)
_DEVICE_FIELDS = frozenset({"kind", "vendor", "slot", "firmware", "readings", *_DEVICE_TEXTS})
_CHECK_FIELDS = frozenset({"name", "status", "device", "code", "message"})
_FAILURE_FIELDS = frozenset(
    {"failure_id", "code", "device", "slot", "message", "evidence", "count", "occurred_at", "last_at"}
)
_KINDS = frozenset(str(kind) for kind in Kind)
_STATUSES = {str(status): status for status in CheckStatus}
_VENDOR = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_CHECK_NAME = re.compile(r"[a-z0-9_.]{1,64}")

# A fleet has few slots and names each of them all day.
_normalise_slot = lru_cache(maxsize=4096)(normalise_slot)

Errors = list[FieldError]
_T = TypeVar("_T")


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
    kinds, parts = (None, _Parts([], [], ())) if devices is None else _take_apart(devices, errors)
    fields = read_fields({**body, "devices": None}, errors)
    if errors:
        return None
    report = Report(node=node, body_digest=hashlib.sha256(raw).hexdigest(), **fields)
    return glance_at(report, lines=parts.lines, kinds=kinds, firmware=parts.firmware, readings=parts.readings)


def read_lines(seen: Glance, body: Mapping[str, Any]) -> Report:
    """Return the report that was glanced over, with its lines. Raises InvalidField for what is wrong in them."""
    if seen.kinds is None:
        return seen.report
    errors: Errors = []
    lines = _list(body["devices"], "/devices", errors)
    entries = tuple(_device(entry, f"/devices/{at}", errors) for at, entry in enumerate(lines))
    refuse(errors)
    return replace(seen.report, entries=entries)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The lines of a list, what is flashed on each device, and what was read from it."""

    lines: list[dict[str, Any]]
    firmware: list[Any]
    readings: tuple[dict[str, Reading], ...]


def _take_apart(devices: object, errors: Errors) -> tuple[tuple[str, ...], _Parts]:
    """Part what changes from look to look from what does not. Only the readings are judged: they are always new."""
    if not isinstance(devices, list) or not all(isinstance(one, dict) for one in devices):
        errors.append(FieldError("/devices", "must be a list of objects"))
        return (), _Parts([], [], ())
    kinds = tuple(_kind(one.get("kind"), "/devices", errors) for one in devices)
    lines = [{name: value for name, value in one.items() if name not in _MOVING} for one in devices]
    readings = tuple(_optional(one, "readings", "/devices", errors, _readings) or {} for one in devices)
    return kinds, _Parts(lines, [one.get("firmware") for one in devices], readings)


_MOVING = frozenset({"firmware", "readings"})


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
    _unknown(body, FIELDS, "", errors)
    read: dict[str, Any] = {name: _id(body.get(name), f"/{name}", errors) for name in REQUIRED_IDS}
    for name in OPTIONAL_IDS:
        read[name] = _optional(body, name, "", errors, _id)
    for name in TIMES:
        read[name] = _optional(body, name, "", errors, _time)
    read["seq"] = _optional(body, "seq", "", errors, _seq)
    covers, partial, devices, checks, failures = (
        _optional(body, name, "", errors, _list) for name in LISTS if name != "host"
    )
    if covers is not None:
        read["covers"] = frozenset(_kind(kind, f"/covers/{at}", errors) for at, kind in enumerate(covers))
    read["partial"] = frozenset(_kind(kind, f"/partial/{at}", errors) for at, kind in enumerate(partial or ()))
    read["failures"] = tuple(_failure(one, f"/failures/{at}", errors) for at, one in enumerate(failures or ()))
    if devices is not None:
        read["entries"] = tuple(_device(entry, f"/devices/{at}", errors) for at, entry in enumerate(devices))
    read["checks"] = tuple(_check(result, f"/checks/{at}", errors) for at, result in enumerate(checks or ()))
    read["host"] = _optional(body, "host", "", errors, _host) or {}
    return read


def _optional(
    body: Mapping[str, Any], name: str, parent: str, errors: Errors, read: Callable[[Any, str, Errors], _T]
) -> _T | None:
    """Read a field that may be absent or null."""
    value = body.get(name)
    return None if value is None else read(value, f"{parent}/{name}", errors)


def _unknown(body: Mapping[str, Any], known: frozenset[str], parent: str, errors: Errors) -> None:
    if not body.keys() <= known:
        errors.extend(FieldError(pointer(parent, name), "is not a known field") for name in body if name not in known)


def _id(value: Any, where: str, errors: Errors) -> str:
    reason = "is required" if value is None else why_not_id(value)
    if reason is None:
        return str(value)
    errors.append(FieldError(where, reason))
    return ""


def _seq(value: Any, where: str, errors: Errors) -> int | None:
    number = whole_number(value, 0, INT_LIMIT - 1)
    if number is None:
        errors.append(FieldError(where, "must be a whole number from 0 on"))
    return number


def _time(value: Any, where: str, errors: Errors) -> datetime | None:
    if not isinstance(value, str):
        errors.append(FieldError(where, "must be a time as text, like 2026-01-31T12:00:00Z"))
        return None
    try:
        return parse_rfc3339(value)
    except ValueError as error:
        errors.append(FieldError(where, f"is no time: {error}"))
        return None


def _list(value: Any, where: str, errors: Errors) -> list[Any]:
    if isinstance(value, list) and len(value) <= ENTRIES_MAX:
        return value
    errors.append(FieldError(where, f"must be a list of at most {ENTRIES_MAX}"))
    return []


def _kind(value: Any, where: str, errors: Errors) -> str:
    if isinstance(value, str) and value in _KINDS:
        return value
    errors.append(FieldError(where, "must be gpu or efa"))
    return ""


def _text(value: Any, where: str, errors: Errors, limit: int = VALUE_LENGTH) -> str | None:
    reason = why_not_text(value, limit, is_prose=limit == TEXT_LENGTH)
    if reason is None:
        return str(value)
    errors.append(FieldError(where, reason))
    return None


def _device(value: Any, where: str, errors: Errors) -> DeviceEntry:
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return DeviceEntry(kind="", vendor="")
    _unknown(value, _DEVICE_FIELDS, where, errors)
    texts: dict[str, Any] = {}
    for name, text in value.items():
        if name not in _DEVICE_TEXTS or text is None:
            continue
        # The short way for nearly every value: what is printable is also free of all that is refused.
        is_plain = type(text) is str and len(text) <= VALUE_LENGTH and text.isprintable()
        texts[name] = text if is_plain else _text(text, f"{where}/{name}", errors)
    _refuse_slice(texts.get("uuid"), where, errors)
    vendor = value.get("vendor")
    if not isinstance(vendor, str) or _VENDOR.fullmatch(vendor) is None:
        errors.append(FieldError(f"{where}/vendor", "must be a lower-case word"))
    for name, read in (("firmware", _firmware), ("readings", _readings)):
        if value.get(name) is not None:
            texts[name] = read(value[name], f"{where}/{name}", errors)
    return DeviceEntry(
        kind=_kind(value.get("kind"), f"{where}/kind", errors),
        vendor=vendor if isinstance(vendor, str) else "",
        slot=_optional(value, "slot", where, errors, _slot),
        **texts,
    )


def _refuse_slice(uuid: str | None, where: str, errors: Errors) -> None:
    if is_mig_name(uuid):
        errors.append(
            FieldError(f"{where}/uuid", f"{uuid} names a slice, not a device: list the GPU that it is part of")
        )


def _slot(value: Any, where: str, errors: Errors) -> str | None:
    text = _text(value, where, errors)
    if text is None or not text.strip():
        return None
    slot = _normalise_slot(text)
    if slot is None:
        errors.append(FieldError(where, f"{text!r} is no PCI address like 0000:53:00.0"))
    return slot


def _object(value: Any, where: str, errors: Errors, limit: int) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > limit:
        errors.append(FieldError(where, f"must be a JSON object with at most {limit} members"))
        return {}
    if not all(name.isprintable() and 0 < len(name) <= VALUE_LENGTH for name in value):
        errors.append(FieldError(where, f"must have names of 1 to {VALUE_LENGTH} printable characters"))
        return {}
    return value


def _firmware(value: Any, where: str, errors: Errors) -> dict[str, str]:
    read: dict[str, str] = {}
    for name, version in _object(value, where, errors, FIRMWARE_MAX).items():
        text = None if version is None else _text(version, pointer(where, name), errors)
        if text is not None:
            read[name] = text
    return read


def _readings(value: Any, where: str, errors: Errors) -> dict[str, Reading]:
    read = _object(value, where, errors, READINGS_MAX)
    for name, reading in read.items():
        if not is_scalar(reading):
            errors.append(FieldError(pointer(where, name), "must be text, a finite number, true, false or null"))
    return read


def _check(value: Any, where: str, errors: Errors) -> CheckResult:
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return CheckResult(name="", status=CheckStatus.UNKNOWN)
    _unknown(value, _CHECK_FIELDS, where, errors)
    name, status = value.get("name"), value.get("status")
    if not isinstance(name, str) or _CHECK_NAME.fullmatch(name) is None:
        errors.append(FieldError(f"{where}/name", "must be a check's name: 1 to 64 of the characters a-z 0-9 _ ."))
    if not isinstance(status, str) or status not in _STATUSES:
        errors.append(FieldError(f"{where}/status", f"must be one of {', '.join(_STATUSES)}"))
    device = _optional(value, "device", where, errors, _text)
    return CheckResult(
        name=name if isinstance(name, str) else "",
        status=_STATUSES.get(str(status), CheckStatus.UNKNOWN),
        # A slot has one form everywhere, so that a result finds its device however its tool wrote the address.
        device=device and (_normalise_slot(device) or device),
        code=_optional(value, "code", where, errors, _text),
        message=_optional(value, "message", where, errors, _message),
    )


def _message(value: Any, where: str, errors: Errors) -> str | None:
    return _text(value, where, errors, TEXT_LENGTH)


def _failure(value: Any, where: str, errors: Errors) -> ReportedFailure:
    """Read a fault that the node saw on itself; the node is the report's."""
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return ReportedFailure(failure_id="", code="")
    _unknown(value, _FAILURE_FIELDS, where, errors)
    code = value.get("code")
    if not isinstance(code, str) or not is_valid_code(code):
        errors.append(FieldError(f"{where}/code", "must be a fault code like xid_79, dcgm_fr_… or gpu.inforom"))
    return ReportedFailure(
        failure_id=_id(value.get("failure_id"), f"{where}/failure_id", errors),
        code=str(code),
        device=_optional(value, "device", where, errors, _text),
        slot=_optional(value, "slot", where, errors, _slot),
        message=_optional(value, "message", where, errors, _message),
        evidence=_optional(value, "evidence", where, errors, _evidence),
        count=_optional(value, "count", where, errors, _count) or 1,
        occurred_at=_optional(value, "occurred_at", where, errors, _time),
        last_at=_optional(value, "last_at", where, errors, _time),
    )


def _evidence(value: Any, where: str, errors: Errors) -> dict[str, Any]:
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return {}
    try:
        return evidence_of(value)
    except ValueError as error:
        errors.append(FieldError(where, str(error)))
        return {}


def _count(value: Any, where: str, errors: Errors) -> int:
    number = whole_number(value, 1, INT_LIMIT - 1)
    if number is None:
        errors.append(FieldError(where, "must be a whole number from 1 on"))
    return number or 1


def _host(value: Any, where: str, errors: Errors) -> dict[str, dict[str, str]]:
    host: dict[str, dict[str, str]] = {}
    for source, given in _object(value, where, errors, READINGS_MAX).items():
        place = pointer(where, source)
        if source not in HOST_SOURCES:
            errors.append(FieldError(place, f"must be one of {', '.join(HOST_SOURCES)}"))
            continue
        named = _object(given, place, errors, READINGS_MAX)
        _unknown(named, frozenset({"serial", "uuid"}), place, errors)
        texts = {name: _optional(named, name, place, errors, _text) for name in ("serial", "uuid")}
        host[source] = {name: text for name, text in texts.items() if text is not None}
    return host
