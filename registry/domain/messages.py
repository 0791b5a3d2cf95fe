# SPDX-License-Identifier: Apache-2.0
"""How does an event read outside? As a CloudEvents document to act upon, or as one sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.domain.actors import Subject, SubjectKind
from registry.domain.events import Event
from registry.domain.times import rfc3339
from registry.domain.webhooks import message_id, node_of

SOURCE = "/pratique"
"""The `source` of a service that was not told its own address; a URI reference, as CloudEvents asks for."""

SEQUENCE_DIGITS = 19
"""Digits of the largest sequence. CloudEvents' extension wants texts in whose order the events stand:
https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/extensions/sequence.md."""

PING = "webhook.ping"
"""The type of a message that only tries the way. It is no event of the history."""

SENTENCE_LENGTH = 600
_WHY = ("why", "reason", "message", "because", "detail", "error", "text")
"""Where an event's data say why, the most telling first."""

_PAGES = {
    SubjectKind.QUARANTINE: "/console/queue",
    SubjectKind.CONFLICT: "/console/conflicts",
    SubjectKind.REPAIR: "/console/repairs",
}


def cloud_event(event: Event, public_url: str | None) -> dict[str, Any]:
    """Write an event as CloudEvents 1.0 in structured JSON. `type` is the one that the history and filters have.

    `data` are those of the event, with actor, subjects, a sentence and a link beside them: enough to act without
    another question. `dataschema` is left out: nothing fixes the data of a type but its documentation.
    """
    subject = _main_subject(event)
    return {
        "specversion": "1.0",
        "id": message_id(event),
        "source": public_url or SOURCE,
        "type": str(event.type),
        **({"subject": f"{subject.kind}/{subject.id}"} if subject else {}),
        "time": rfc3339(event.at),
        "datacontenttype": "application/json",
        "sequence": f"{event.sequence:0{SEQUENCE_DIGITS}d}",
        "data": {
            "actor": {"kind": str(event.actor.kind), "name": event.actor.name},
            "subjects": [{"kind": str(one.kind), "id": one.id} for one, _ in event.subjects],
            "summary": sentence(event),
            "link": link(event, public_url),
            **event.data,
        },
    }


def ping(message: str, subscription_id: str, at: str, public_url: str | None) -> dict[str, Any]:
    """Write the message that only tries the way."""
    return {
        "specversion": "1.0",
        "id": message,
        "source": public_url or SOURCE,
        "type": PING,
        "subject": f"{SubjectKind.SUBSCRIPTION}/{subscription_id}",
        "time": at,
        "datacontenttype": "application/json",
        "data": {"summary": "Pratique can reach this address.", "link": None},
    }


def slack_text(event: Event, public_url: str | None) -> str:
    """Write an event as the text of a Slack message: three characters mean something there.

    https://docs.slack.dev/messaging/formatting-message-text#escaping
    """
    where = link(event, public_url)
    return _escape(sentence(event)) + (f" <{where}|Open>" if where else "")


def sentence(event: Event) -> str:
    """Say in one sentence what happened, to what, where, why, and by whom."""
    data = event.data
    noun, _, deed = str(event.type).partition(".")
    words = f"{noun.replace('_', ' ').capitalize()} {deed.replace('_', ' ')}"
    what = " ".join(one for one in (_code(data), _device(data)) if one)
    node, slot = node_of(data), data.get("slot")
    where = f"on {node}" + (f" in {slot}" if isinstance(slot, str) else "") if node else ""
    told = ": ".join(one for one in (words, " ".join(one for one in (what, where) if one), _why(data)) if one)
    return f"{told[:SENTENCE_LENGTH]} (by {event.actor})"


def link(event: Event, public_url: str | None) -> str | None:
    """Return the page of the console about an event; None when the service does not know its own address."""
    if public_url is None:
        return None
    main = _main_subject(event)
    if main and main.kind == SubjectKind.DEVICE:
        return f"{public_url}/console/devices/{main.id}"
    if main and main.kind == SubjectKind.NODE:
        return f"{public_url}/console/nodes/{main.id}"
    pages = [page for kind, page in _PAGES.items() if any(one.kind == kind for one, _ in event.subjects)]
    return public_url + (pages[0] if pages else "/console/")


def _main_subject(event: Event) -> Subject | None:
    """What a reader asks about: the device if there is one, else the node, else what the event names first."""
    subjects = [one for one, _ in event.subjects]
    for kind in (SubjectKind.DEVICE, SubjectKind.NODE):
        for one in subjects:
            if one.kind == kind:
                return one
    return subjects[0] if subjects else None


def _device(data: Mapping[str, Any]) -> str:
    """Name the device of an event's data, or the first of several and how many more."""
    listed = data.get("devices")
    several = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    first = {**(several[0] if several else {}), **{name: one for name, one in data.items() if one is not None}}
    name = first.get("serial") or first.get("uuid")
    if not isinstance(name, str):
        return ""
    kind = first.get("kind")
    called = f"{kind.upper()} {name}" if isinstance(kind, str) else f"device {name}"
    return called + (f" and {len(several) - 1} more" if len(several) > 1 else "")


def _code(data: Mapping[str, Any]) -> str:
    code = data.get("code") or data.get("condition") or data.get("check")
    return code if isinstance(code, str) else ""


def _why(data: Mapping[str, Any]) -> str:
    return next((" ".join(one.split()) for name in _WHY if isinstance(one := data.get(name), str) and one.strip()), "")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
