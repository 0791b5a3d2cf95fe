# SPDX-License-Identifier: Apache-2.0
"""What happened: to a device over every node it lived in, on a node, or anywhere?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from registry.domain.actors import Actor, SubjectKind
from registry.domain.errors import FieldError, InvalidField, NotFound
from registry.domain.events import Event
from registry.domain.times import parse_rfc3339
from registry.services.devices import get_all
from registry.services.pages import Page, PageRequest, number_of, page_of
from registry.services.proofs import Prover
from registry.store import history, nodes
from registry.store.database import Database, Snapshot
from registry.store.filters import whole_number


def device_history(db: Database, ref: str, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return what happened to a device, under every name and in every slot. Raises NotFound, InvalidField.

    A reference that fits several devices gives what happened to any of them, merged. The filter `proof` is none: it is
    the sequence of a checkpoint, and each entry comes with the proof that the checkpoint covers it.
    """
    with db.read() as snapshot:
        subjects = [(SubjectKind.DEVICE, one.id) for one in get_all(snapshot, ref)]
        size = whole_number("proof", filters["proof"]) if "proof" in filters else None
        show = Event.to_json if size is None else Prover(snapshot, size).show
        return _page(snapshot, page, subjects=subjects, show=show, **_asked(filters))


def node_history(db: Database, name: str, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return what happened on a node, under every instance. Raises NotFound, InvalidField."""
    with db.read() as snapshot:
        if nodes.find_node(snapshot, name) is None:
            raise NotFound(f"No node named {name} has reported.")
        return _page(snapshot, page, subjects=[(SubjectKind.NODE, name)], **_asked(filters))


def list_events(
    db: Database,
    filters: Mapping[str, str],
    page: PageRequest,
    *,
    show: Callable[[Event], dict[str, Any]] = Event.to_json,
) -> Page:
    """Return events by sequence, type, actor (`kind:name`), device, node, hold and time. Raises InvalidField, NotFound.

    Those of a stretch of time, or of an actor, come in the order of times; all others in the order of sequences.
    """
    asked = _asked(filters)
    with db.read() as snapshot:
        about: list[list[tuple[str, str]]] = []
        if "device" in filters:
            about.append([(SubjectKind.DEVICE, one.id) for one in get_all(snapshot, filters["device"])])
        for kind in (SubjectKind.NODE, SubjectKind.QUARANTINE):
            about += [[(kind, filters[kind])]] if kind in filters else []
        subjects = about[0] if about else None
        found = _page(snapshot, page, subjects=subjects, show=show, **asked)
    return Page([one for one in found.items if all(_is_about(one, others) for others in about[1:])], found.next)


def _is_about(item: Mapping[str, Any], subjects: Sequence[tuple[str, str]]) -> bool:
    return any((one["kind"], one["id"]) in subjects for one in item["subjects"])


def _asked(filters: Mapping[str, str]) -> dict[str, Any]:
    """Read the filters that need no record. Raises InvalidField."""
    readers = (("actor", Actor.parse), ("since", parse_rfc3339), ("until", parse_rfc3339))
    return {
        "types": [filters["type"]] if "type" in filters else [],
        "sequence": whole_number("sequence", filters["sequence"]) if "sequence" in filters else None,
        **{name: _read(name, filters.get(name), parse) for name, parse in readers},
    }


def _read(name: str, text: str | None, parse: Any) -> Any:
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidField(f"{name}: {error}", errors=(FieldError(f"/{name}", str(error)),)) from None


def _page(
    snapshot: Snapshot,
    page: PageRequest,
    *,
    subjects: Sequence[tuple[str, str]] | None,
    show: Callable[[Event], dict[str, Any]] = Event.to_json,
    **filters: Any,
) -> Page:
    key = number_of(page)
    events = history.page_events(
        snapshot,
        subjects=subjects,
        before=key if page.newest_first else None,
        after=None if page.newest_first else key,
        limit=page.limit + 1,
        newest_first=page.newest_first,
        **filters,
    )
    return page_of(events, page, lambda event: str(event.sequence), show)
