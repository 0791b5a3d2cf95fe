# SPDX-License-Identifier: Apache-2.0
"""Which report do these raw outputs make? A bootstrap script needs `curl -F nvidia_smi_xml=@file` and nothing else.

Each part goes through the parser that the agent uses. A part that cannot be read refuses the whole report: it is
never read as "devices are gone".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import IO, Any

from werkzeug.datastructures import Headers
from werkzeug.formparser import MultiPartParser

from api.reports_body import FIELDS, LISTS, Errors, read_fields, refuse
from api.text import pointer, read_json
from registry.collectors import nvidia_smi_csv, nvidia_smi_list, nvidia_smi_q, nvidia_smi_xml
from registry.domain.errors import FieldError, InvalidField, MalformedBody, PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Kind, Report, ReportedFailure

Parser = Callable[[bytes], Inventory]

GPU_PARTS: Mapping[str, Parser] = {
    "nvidia_smi_xml": nvidia_smi_xml.parse,
    "nvidia_smi_q": nvidia_smi_q.parse,
    "nvidia_smi_csv": nvidia_smi_csv.parse,
    "nvidia_smi_list": nvidia_smi_list.parse,
}
"""The raw outputs that are read, the one that says most first: it speaks for the GPUs."""

LATER_PARTS = frozenset(
    {"dcgm_health", "dcgm_diag", "kernel_log", "lspci", "ibv_devinfo", "efa_sysfs", "node_conditions"}
)
"""Names that are taken. Refused by name, because evidence that is silently dropped would look like none."""

PARTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """A multipart body: each part by its name, and the digest of all of them, in whatever order they came."""

    raw: Mapping[str, bytes]
    digest: str


class _RawParser(MultiPartParser):
    """Leaves fields as the bytes they came as: else what is no UTF-8 would be replaced before anybody can refuse it."""

    def get_part_charset(self, headers: Headers) -> str:  # noqa: ARG002 - werkzeug gives it
        """Give the charset in which every byte is the character of its number."""
        return "latin-1"


def read_parts(stream: IO[bytes], boundary: str | None, length: int) -> Parts:
    """Take a multipart body apart. A part may come as a file or as a field. Raises MalformedBody, InvalidField."""
    if not boundary:
        raise MalformedBody("the content type names no boundary; let the client write it (curl -F)")
    parser = _RawParser(
        stream_factory=lambda *_, **__: BytesIO(), max_form_memory_size=length, max_form_parts=PARTS_MAX
    )
    try:
        form, files = parser.parse(stream, boundary.encode("latin-1", "replace"), length)
    except ValueError as error:
        raise MalformedBody(f"the body is not multipart/form-data: {error}") from None
    named = [(name, text.encode("latin-1")) for name, text in form.items(multi=True)]
    named += [(name, file.stream.read()) for name, file in files.items(multi=True)]
    names = [name for name, _ in named]
    twice = tuple(
        FieldError(pointer("", name), "is sent twice") for name in dict.fromkeys(names) if names.count(name) > 1
    )
    if twice:
        raise InvalidField(f"{twice[0].pointer} {twice[0].detail}", errors=twice)
    digest = hashlib.sha256()
    for name, content in sorted(named):
        digest.update(f"{len(name)} {len(content)} {name}\n".encode("utf-8", "surrogatepass") + content)
    return Parts(dict(named), digest.hexdigest())


def report_of_parts(parts: Parts, node: str) -> Report:
    """Make a report of raw outputs and fields. Raises InvalidField and PartUnreadable, naming the part."""
    errors: Errors = []
    fields = read_fields(_body(parts.raw, errors), errors)
    refuse(errors)
    report = Report(node=node, body_digest=parts.digest, **fields)
    inventories = [_parse(name, parser, parts.raw[name]) for name, parser in GPU_PARTS.items() if name in parts.raw]
    return _with_gpus(report, inventories) if inventories else report


def _body(raw: Mapping[str, bytes], errors: Errors) -> dict[str, Any]:
    """Gather the fields into the body that a JSON report would be."""
    body: dict[str, Any] = {}
    for name, content in raw.items():
        if name in LATER_PARTS:
            errors.append(FieldError(pointer("", name), "is not read by this version yet; leave the part out"))
        elif name in FIELDS:
            body[name] = _field(name, content, errors)
        elif name not in GPU_PARTS:
            known = ", ".join([*GPU_PARTS, *sorted(FIELDS)])
            errors.append(FieldError(pointer("", name), f"is not a known part; known are {known}"))
    return body


def _field(name: str, content: bytes, errors: Errors) -> Any:
    """Read one field: text, a number, or JSON where a report has a list or an object. Empty is absent."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        errors.append(FieldError(f"/{name}", "is not UTF-8"))
        return None
    if not text.strip():
        return None
    if name == "seq":
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text
    if name not in LISTS:
        return text
    try:
        return read_json(content)
    except MalformedBody as error:
        errors.append(FieldError(f"/{name}", error.detail.replace("the body", "the field", 1)))
        return None


def _parse(name: str, parser: Parser, content: bytes) -> Inventory:
    try:
        return parser(content)
    except PartUnreadable as error:
        raise PartUnreadable(
            f"{name} cannot be read: {error.detail}", errors=(FieldError(f"/{name}", error.detail),), **error.extra
        ) from error


def _with_gpus(report: Report, inventories: list[Inventory]) -> Report:
    """Let the first inventory speak for the GPUs; what the others found about the same GPUs is added."""
    listed = report.entries or ()
    beside = tuple(
        FieldError(f"/devices/{at}", "a GPU must not be listed beside raw GPU output, which speaks for all of them")
        for at, entry in enumerate(listed)
        if entry.kind == Kind.GPU
    )
    refuse(list(beside))
    first, *others = inventories
    spoken_for = report.covers if report.covers is not None else frozenset(entry.kind for entry in listed)
    known = max((inventory.attached or 0) for inventory in inventories)
    failures = {failure.failure_id: failure for inventory in inventories for failure in inventory.failures}
    return replace(
        report,
        entries=(*first.entries, *listed),
        covers=spoken_for | {str(first.kind)},
        partial=frozenset({str(first.kind)}) if len(first.entries) < known else frozenset(),
        checks=(*first.checks, *_checks_beside(first, others), *report.checks),
        failures=tuple(_placed(failure, report.node) for failure in failures.values()),
        stamps=tuple(dict.fromkeys(inventory.stamp for inventory in inventories if inventory.stamp)),
        warnings=tuple(notice for inventory in inventories for notice in inventory.warnings),
    )


def _placed(failure: ReportedFailure, node: str) -> ReportedFailure:
    return replace(failure, node=node)


def _checks_beside(first: Inventory, others: list[Inventory]) -> list[CheckResult]:
    """Return what the other outputs found about the GPUs of the first.

    Where an output that says less could not look, the one that says more has the word; what it saw counts.
    """
    found = {(check.name, _slot(first, check.device)) for check in first.checks}
    slots = {entry.slot for entry in first.entries}
    added: list[CheckResult] = []
    for other in others:
        for check in other.checks:
            slot = _slot(other, check.device)
            if check.device is not None and slot not in slots:
                continue
            if check.status is CheckStatus.UNKNOWN and (check.name, slot) in found:
                continue
            added.append(replace(check, device=slot) if slot else check)
    return added


def _slot(inventory: Inventory, device: str | None) -> str | None:
    """Find the slot of the entry that a check names by any of its identifiers."""
    if device is None:
        return None
    return next((entry.slot for entry in inventory.entries if device in _names(entry)), None)


def _names(entry: DeviceEntry) -> tuple[str | None, ...]:
    return entry.slot, entry.uuid, entry.serial
