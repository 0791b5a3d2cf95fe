# SPDX-License-Identifier: Apache-2.0
"""What does one value, or one line, of a report's JSON say? What is wrong goes to a list, and reading goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from api.text import TEXT_LENGTH, evidence_of, is_scalar, pointer, whole_number, why_not_id, why_not_text
from registry.domain.canonical import INT_LIMIT
from registry.domain.errors import FieldError
from registry.domain.failures import is_valid_code
from registry.domain.identifiers import is_mig_name, normalise_slot
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Kind, Reading, ReportedFailure
from registry.domain.times import parse_rfc3339

ENTRIES_MAX = 1024
"""Most devices, and most check results, in one report: far above any machine."""

FIRMWARE_MAX = 64
READINGS_MAX = 256
VALUE_LENGTH = 256
"""Longest identifier, model or version, in characters."""

CHECK_NAME_LENGTH = 64

HOST_SOURCES = ("dmi", "redfish", "chassis")

_DEVICE_TEXTS = frozenset(
    (
        *("serial", "uuid", "model", "part_number", "module_id", "unique_id", "asset_tag", "name", "mac", "gid"),
        "node_guid",
    )
)
_DEVICE_FIELDS = frozenset({"kind", "vendor", "slot", "firmware", "readings", *_DEVICE_TEXTS})
_CHECK_FIELDS = frozenset({"name", "status", "device", "code", "message", "count"})
_FAILURE_FIELDS = frozenset(
    {"failure_id", "code", "device", "slot", "message", "evidence", "count", "occurred_at", "last_at"}
)
_KINDS = frozenset(str(kind) for kind in Kind)
_STATUSES = {str(status): status for status in CheckStatus}
_VENDOR = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_CHECK_NAME = re.compile(rf"[a-z0-9_.]{{1,{CHECK_NAME_LENGTH}}}")

# A fleet has few slots and names each of them all day.
_normalise_slot = lru_cache(maxsize=4096)(normalise_slot)

Errors = list[FieldError]
_T = TypeVar("_T")


def optional(
    body: Mapping[str, Any], name: str, parent: str, errors: Errors, read: Callable[[Any, str, Errors], _T]
) -> _T | None:
    """Read a field that may be absent or null."""
    value = body.get(name)
    return None if value is None else read(value, f"{parent}/{name}", errors)


def refuse_unknown(body: Mapping[str, Any], known: frozenset[str], parent: str, errors: Errors) -> None:
    """Name every field that is not known."""
    if not body.keys() <= known:
        errors.extend(FieldError(pointer(parent, name), "is not a known field") for name in body if name not in known)


def read_id(value: Any, where: str, errors: Errors) -> str:
    """Read an opaque id, which is required."""
    reason = "is required" if value is None else why_not_id(value)
    if reason is None:
        return str(value)
    errors.append(FieldError(where, reason))
    return ""


def read_seq(value: Any, where: str, errors: Errors) -> int | None:
    """Read a whole number from 0 on."""
    number = whole_number(value, 0, INT_LIMIT - 1)
    if number is None:
        errors.append(FieldError(where, "must be a whole number from 0 on"))
    return number


def read_time(value: Any, where: str, errors: Errors) -> datetime | None:
    """Read a time."""
    if not isinstance(value, str):
        errors.append(FieldError(where, "must be a time as text, like 2026-01-31T12:00:00Z"))
        return None
    try:
        return parse_rfc3339(value)
    except ValueError as error:
        errors.append(FieldError(where, f"is no time: {error}"))
        return None


def read_list(value: Any, where: str, errors: Errors) -> list[Any]:
    """Read a list of bounded length."""
    if isinstance(value, list) and len(value) <= ENTRIES_MAX:
        return value
    errors.append(FieldError(where, f"must be a list of at most {ENTRIES_MAX}"))
    return []


def read_kind(value: Any, where: str, errors: Errors) -> str:
    """Read a kind of device."""
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


def read_device(value: Any, where: str, errors: Errors) -> DeviceEntry:
    """Read one line of a list."""
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return DeviceEntry(kind="", vendor="")
    refuse_unknown(value, _DEVICE_FIELDS, where, errors)
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
    for name, read in (("firmware", _firmware), ("readings", read_readings)):
        if value.get(name) is not None:
            texts[name] = read(value[name], f"{where}/{name}", errors)
    return DeviceEntry(
        kind=read_kind(value.get("kind"), f"{where}/kind", errors),
        vendor=vendor if isinstance(vendor, str) else "",
        slot=optional(value, "slot", where, errors, _slot),
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


def read_readings(value: Any, where: str, errors: Errors) -> dict[str, Reading]:
    """Read what was read from a device."""
    read = _object(value, where, errors, READINGS_MAX)
    for name, reading in read.items():
        if not is_scalar(reading):
            errors.append(FieldError(pointer(where, name), "must be text, a finite number, true, false or null"))
    return read


def read_check(value: Any, where: str, errors: Errors) -> CheckResult:
    """Read one result of one check."""
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return CheckResult(name="", status=CheckStatus.UNKNOWN)
    plain = _plain_check(value) if len(value) == 2 else None
    if plain is not None:
        return plain
    refuse_unknown(value, _CHECK_FIELDS, where, errors)
    name, status = value.get("name"), value.get("status")
    if not isinstance(name, str) or _CHECK_NAME.fullmatch(name) is None:
        errors.append(FieldError(f"{where}/name", "must be a check's name: 1 to 64 of the characters a-z 0-9 _ ."))
    if not isinstance(status, str) or status not in _STATUSES:
        errors.append(FieldError(f"{where}/status", f"must be one of {', '.join(_STATUSES)}"))
    device = optional(value, "device", where, errors, _text)
    return CheckResult(
        name=name if isinstance(name, str) else "",
        status=_STATUSES.get(str(status), CheckStatus.UNKNOWN),
        # A slot has one form everywhere, so that a result finds its device however its tool wrote the address.
        device=device and (_normalise_slot(device) or device),
        code=optional(value, "code", where, errors, _text),
        message=optional(value, "message", where, errors, _message),
        count=optional(value, "count", where, errors, _count),
    )


def _plain_check(value: Mapping[str, Any]) -> CheckResult | None:
    """The short way for nearly every result: a known status, and nothing else. None for what is not so plain."""
    name, status = value.get("name"), value.get("status")
    if not isinstance(name, str) or not isinstance(status, str) or len(name) > CHECK_NAME_LENGTH:
        return None
    return _made_check(name, status)


@lru_cache(maxsize=4096)
def _made_check(name: str, status: str) -> CheckResult | None:
    """A fleet says the same few results all day: each is made once."""
    found = _STATUSES.get(status)
    return None if found is None or _CHECK_NAME.fullmatch(name) is None else CheckResult(name, found)


def _message(value: Any, where: str, errors: Errors) -> str | None:
    return _text(value, where, errors, TEXT_LENGTH)


def read_failure(value: Any, where: str, errors: Errors) -> ReportedFailure:
    """Read a fault that the node saw on itself; the node is the report's."""
    if not isinstance(value, dict):
        errors.append(FieldError(where, "must be a JSON object"))
        return ReportedFailure(failure_id="", code="")
    refuse_unknown(value, _FAILURE_FIELDS, where, errors)
    code = value.get("code")
    if not isinstance(code, str) or not is_valid_code(code):
        errors.append(FieldError(f"{where}/code", "must be a fault code like xid_79, dcgm_fr_… or gpu.inforom"))
    return ReportedFailure(
        failure_id=read_id(value.get("failure_id"), f"{where}/failure_id", errors),
        code=str(code),
        device=optional(value, "device", where, errors, _text),
        slot=optional(value, "slot", where, errors, _slot),
        message=optional(value, "message", where, errors, _message),
        evidence=optional(value, "evidence", where, errors, _evidence),
        count=optional(value, "count", where, errors, _count) or 1,
        occurred_at=optional(value, "occurred_at", where, errors, read_time),
        last_at=optional(value, "last_at", where, errors, read_time),
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


def read_host(value: Any, where: str, errors: Errors) -> dict[str, dict[str, str]]:
    """Read what each source says of the host."""
    host: dict[str, dict[str, str]] = {}
    for source, given in _object(value, where, errors, READINGS_MAX).items():
        place = pointer(where, source)
        if source not in HOST_SOURCES:
            errors.append(FieldError(place, f"must be one of {', '.join(HOST_SOURCES)}"))
            continue
        named = _object(given, place, errors, READINGS_MAX)
        refuse_unknown(named, frozenset({"serial", "uuid"}), place, errors)
        texts = {name: optional(named, name, place, errors, _text) for name in ("serial", "uuid")}
        host[source] = {name: text for name, text in texts.items() if text is not None}
    return host
