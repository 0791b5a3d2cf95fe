# SPDX-License-Identifier: Apache-2.0
"""What is the whole life of one device, why is it where it is, and what can be done about it?"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, Response
from markupsafe import Markup

from api.console.forms import choice, field, flag, later, moment, optional, prose, refuse, retyped
from api.console.holding import keep_out, let_go
from api.console.pages import PERSONS, Done, action, page, render
from api.console.words import clock, segment, tell
from api.context import actor, caller, database, now, policy
from api.schemas.quarantines import REF_LENGTH, WORD_LENGTH
from api.text import TEXT_LENGTH
from registry.domain.errors import DeviceAmbiguous
from registry.domain.quarantine import Scope
from registry.domain.reports import Kind, ReportedFailure
from registry.domain.roles import Role
from registry.domain.timeline import Timeline
from registry.domain.timeline_svg import draw_svg
from registry.services import device_bundle, devices, failures, notes
from registry.services.device_view import view_device
from registry.services.quarantine import OpenQuarantines

bp = Blueprint("console_device", __name__)

ZIP = "application/zip"

SCOPES = (("board", "the whole board"), ("unit", "this unit alone"))

_TOLD = (
    *("code", "severity", "check", "slot", "from_node", "from_slot", "have", "need", "type", "value", "why", "reason"),
    *("message", "text", "detail", "owner"),
)
"""What of an event is said in its line."""


@bp.get("/devices/<path:ref>")
@page(*PERSONS)
def show(ref: str) -> Response:
    """Show one device, by our id, its serial or its UUID; of several that fit, let one be chosen. Raises NotFound."""
    try:
        view = view_device(database(), ref, policy=policy(), now=now())
    except DeviceAmbiguous as error:
        return _choose(ref, error)
    name = name_of(view.device)
    return render(
        "device.html",
        view=view,
        device=view.device,
        name=name,
        at=_address(view.device["id"]),
        picture=Markup(draw_svg(view.timeline, name)),  # noqa: S704 - all that came in is escaped where it is drawn
        happened=sorted(_happened(view.timeline), key=lambda one: one[0], reverse=True),
        readings=view.readings,
        events=[{**one, "told": tell(one["data"], _TOLD)} for one in view.events],
        mark=mark_of(view.device),
        scopes=SCOPES,
        is_gpu=view.device["kind"] == Kind.GPU,
        failure_id=f"console-{uuid.uuid4()}",
        may_act=caller().role in {Role.OPERATOR, Role.ADMIN},
    )


def _choose(ref: str, error: DeviceAmbiguous) -> Response:
    """Let a person say which of the units that a serial fits is meant."""
    found = [devices.show_device(database(), one["id"], now=now()) for one in error.extra["candidates"]]
    return render("device_choose.html", ref=ref, devices=found)


def name_of(device: Mapping[str, Any]) -> str:
    """Call a device by its kind and by what stands on it."""
    return f"{str(device['kind']).upper()} {mark_of(device)}"


def mark_of(device: Mapping[str, Any]) -> str:
    """What stands on a device, and is typed again to show that it is meant: its serial, else its UUID, else our id."""
    return str(device["serial"] or device["uuid"] or device["id"])


def _happened(timeline: Timeline) -> Iterator[tuple[datetime, str, str]]:
    """All that the picture shows, as lines of a table: when, where, what."""
    for lane in timeline.lanes:
        for stay in lane.stays:
            until = f", until {clock(stay.until)}" if stay.until else ", still there"
            yield stay.since, lane.name, f"came to slot {stay.slot or 'unknown'}{until}"
        for dot in lane.dots:
            count = f" {dot.count} times" if dot.count > 1 else ""
            quiet = ", without effect" if dot.is_quiet else ""
            yield dot.at, lane.name, f"failure {', '.join(dot.codes)}{count} ({dot.severity}{quiet})"
        for tick in lane.ticks:
            yield tick.at, lane.name, "clean run counted"
    for bar in (one for row in timeline.bars for one in row):
        until = f", until {clock(bar.until)}" if bar.until else ", still held"
        yield bar.since, "", f"held by {bar.owner}: {bar.reason}{until}"


@bp.get("/devices/<path:ref>/bundle.zip")
@page(*PERSONS)
def bundle(ref: str) -> Response:
    """Give all that is known of one device as a file. Raises NotFound, DeviceAmbiguous."""
    evidence = device_bundle.gather(database(), ref, policy=policy(), now=now())
    answer = Response(device_bundle.stream(database(), evidence), content_type=ZIP)
    answer.headers["Content-Disposition"] = f'attachment; filename="{device_bundle.file_name(evidence)}"'
    return answer


# --- what can be done -------------------------------------------------------------------------------------------------


@bp.post("/devices/<path:ref>/hold")
@action(Role.OPERATOR, on=show)
def hold(ref: str) -> Done:
    """Keep the device out, wherever it turns up."""
    device = _meant(ref)
    command = OpenQuarantines(
        targets=({"device": device["id"]},),
        reason=prose(),
        cause=optional("cause", most=WORD_LENGTH),
        ticket=optional("ticket", most=REF_LENGTH),
        scope=Scope(choice("scope", tuple(Scope))) if optional("scope") else None,
        drain=flag("drain"),
        review_at=later("review_at"),
    )
    retyped(mark_of(device))
    told = keep_out(command, kind="device", name=name_of(device), about="device")
    return Done(told, _address(device["id"]))


@bp.post("/devices/<path:ref>/holds/<quarantine_id>/release")
@action(Role.OPERATOR, on=lambda ref, quarantine_id: show(ref))  # noqa: ARG005 - the page is the device's
def release(ref: str, quarantine_id: str) -> Done:
    """End one hold on the device."""
    device, reason = _meant(ref), prose()
    retyped(mark_of(device))
    let_go(quarantine_id, reason)
    told = f"A hold on {name_of(device)} is released. Its node needs new passes."
    return Done(told, _address(device["id"]))


@bp.post("/devices/<path:ref>/failures")
@action(Role.OPERATOR, on=show)
def fail(ref: str) -> Done:
    """Put on record that the device failed; what the code does is the policy's."""
    device = _meant(ref)
    failure = ReportedFailure(
        failure_id=field("failure_id"),
        code=field("code", most=64),
        device=device["id"],
        occurred_at=moment("occurred_at") or now(),
        message=field("message", most=TEXT_LENGTH, is_prose=True),
    )
    retyped(mark_of(device))
    (item,) = failures.record_failures(
        database(), (failure,), actor=actor(), node_scope=None, policy=policy(), now=now()
    )
    if item["outcome"] == "refused":
        raise refuse("code", str(item["message"]))
    told = f"{failure.code} is on record; its effect is {item['failure']['effect']}."
    return Done(told, _address(device["id"]))


@bp.post("/devices/<path:ref>/notes")
@action(Role.OPERATOR, on=show)
def note(ref: str) -> Done:
    """Write a note about the device."""
    device = _meant(ref)
    notes.note_device(database(), device["id"], text=prose("text"), actor=actor(), now=now())
    return Done("Your note is in the history.", _address(device["id"]))


def _meant(ref: str) -> dict[str, Any]:
    """Return the one device that a form is about. Raises NotFound, DeviceAmbiguous."""
    return devices.show_device(database(), ref, now=now())


def _address(device_id: str) -> str:
    return f"/console/devices/{segment(device_id)}"
