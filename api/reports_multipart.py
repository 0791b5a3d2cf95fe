# SPDX-License-Identifier: Apache-2.0
"""Which report do these raw outputs make? A bootstrap script needs `curl -F nvidia_smi_xml=@file` and nothing else.

Each part goes through the parser that the agent uses. A part that cannot be read refuses the whole report: it is
never read as "devices are gone".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from io import BytesIO
from typing import IO, Any

from werkzeug.datastructures import Headers
from werkzeug.formparser import MultiPartParser

from api.parts_agree import check_agreement
from api.parts_together import with_efas, with_findings, with_gpus
from api.report_parts import (
    BOOT_PART,
    COMMANDS,
    EFA_PARTS,
    FINDING_PARTS,
    GPU_PARTS,
    Receipt,
    read_boot_time,
    read_part,
)
from api.reports_body import FIELDS, LISTS, read_fields, refuse
from api.reports_values import Errors
from api.text import pointer, read_json
from registry.domain.errors import FieldError, InvalidField, MalformedBody
from registry.domain.reports import Findings, Inventory, Report

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
    named = [(name, _with_line_end(name, text.encode("latin-1"))) for name, text in form.items(multi=True)]
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


def _with_line_end(name: str, content: bytes) -> bytes:
    """Give a tool's output that was sent as a field, `-F lspci="$(lspci)"`, the line end that the shell took from it.

    Without one it would pass for cut off.
    """
    return content if name not in COMMANDS or not content or content.endswith(b"\n") else content + b"\n"


def report_of_parts(parts: Parts, node: str, received_at: datetime) -> Report:
    """Make a report of raw outputs and fields. Raises InvalidField and PartUnreadable, naming the part."""
    errors: Errors = []
    fields = read_fields(_body(parts.raw, errors), errors)
    refuse(errors)
    report = Report(node=node, body_digest=parts.digest, **fields)
    sent = parts.raw
    gpus = {name: read_part(name, partial(parse, sent[name])) for name, parse in GPU_PARTS.items() if name in sent}
    check_agreement(gpus)
    efas = [read_part(name, partial(parse, sent[name])) for name, parse in EFA_PARTS.items() if name in sent]
    boot_time = read_part(BOOT_PART, partial(read_boot_time, sent[BOOT_PART])) if BOOT_PART in sent else None
    receipt = Receipt(report.boot_id, received_at, report.booted_at or boot_time, node, report.provider_id)
    findings = [
        read_part(name, partial(parse, sent[name], receipt)) for name, parse in FINDING_PARTS.items() if name in sent
    ]
    findings += [_without_list(one) for one in (*gpus.values(), *efas) if not one.is_list]
    gpu_lists, efa_lists = ([one for one in said if one.is_list] for said in (gpus.values(), efas))
    report = with_efas(report, efa_lists) if efa_lists else report
    report = with_gpus(report, gpu_lists) if gpu_lists else report
    return with_findings(report, findings) if findings else report


def _without_list(said: Inventory) -> Findings:
    return Findings(checks=said.checks, failures=said.failures, warnings=said.warnings)


def _body(raw: Mapping[str, bytes], errors: Errors) -> dict[str, Any]:
    """Gather the fields into the body that a JSON report would be."""
    body: dict[str, Any] = {}
    for name, content in raw.items():
        if name in FIELDS:
            body[name] = _field(name, content, errors)
        elif name not in COMMANDS:
            known = ", ".join([*COMMANDS, *sorted(FIELDS)])
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
