# SPDX-License-Identifier: Apache-2.0
"""What does a node say about itself, and what follows? `POST /v1/nodes/{node}/reports`: the busiest address."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, request

from api.answers import answer
from api.auth import check_instance, require
from api.body import MULTIPART, json_body, raw_body
from api.context import actor, database, now, policy
from api.contract import JSON, says
from api.pagination import query
from api.report_parts import COMMANDS
from api.reports_body import glance_over, read_lines, report_of
from api.reports_multipart import read_parts, report_of_parts
from api.schemas.shown import ref
from api.schemas.taken import REPORT, REPORT_EXAMPLE, report_parts
from api.v1.names import check_node
from registry.domain.errors import MalformedBody
from registry.domain.glance import Glance, glance_of
from registry.domain.reports import Report
from registry.domain.roles import Role
from registry.services import reports

bp = Blueprint("reports", __name__)


@bp.post("/nodes/<node>/reports")
@says(
    {200: ref("Reported")},
    body={JSON: REPORT, MULTIPART: report_parts(COMMANDS)},
    example=REPORT_EXAMPLE,
    problems=("covers_required", "slot_repeated", "part_unreadable", "report_id_reused", "instance_superseded"),
)
@require(Role.NODE)
def accept(node: str) -> Response:
    """Take in devices, readings and checks; answer what counted, and the decision."""
    check_node(node)
    query(())
    seen, read = _report(node)
    check_instance(seen.report.provider_id, seen.report.profile)
    told = reports.accept_glance(database(), seen, read, actor=actor(), policy=policy(), now=now())
    return answer(told)


def _report(node: str) -> tuple[Glance, Callable[[], Report]]:
    """Read the report from JSON, or from raw tool output: at a glance, and in full when that is asked for."""
    if request.mimetype == MULTIPART:
        boundary = request.mimetype_params.get("boundary")
        parts = read_parts(request.stream, boundary, request.content_length or 0)
        report = report_of_parts(parts, node, now())
        return glance_of(report), lambda: report
    raw = raw_body()
    if not raw:
        raise MalformedBody("the body is empty; send a report as JSON or as multipart/form-data")
    body = json_body()
    seen = glance_over(body, node, raw)
    if seen is not None:
        return seen, lambda: read_lines(seen, body)
    report = report_of(body, node, raw)
    return glance_of(report), lambda: report
