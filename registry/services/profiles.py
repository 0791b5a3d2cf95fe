# SPDX-License-Identifier: Apache-2.0
"""What should a node of this profile carry? Operators' profiles first, then the built-in ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.errors import NotFound
from registry.domain.events import Draft, EventType
from registry.domain.profiles import BUILT_IN, Profile, from_json
from registry.services import passes
from registry.services.pages import Page, PageRequest, page_of_few
from registry.store import nodes, profiles
from registry.store.database import Database, Snapshot, Transaction
from registry.store.filters import Sort

SORTS = {"built_in": Sort.FLAG}
"""The fields whose filters are no plain text."""


def find_profile(snapshot: Snapshot, name: str) -> Profile | None:
    """Return the profile in force under this name, or None where nobody described one."""
    return parse_profile(name, profiles.find_profile_body(snapshot, name))


def parse_profile(name: str, body: Any) -> Profile | None:
    """Read a stored body (JSON text or value); without one, the built-in profile of the name."""
    if body is None:
        return BUILT_IN.get(name)
    return from_json(name, json.loads(body) if isinstance(body, str) else body)


def list_profiles(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return the profiles in force in the order of their names, each with `built_in`. Raises InvalidField."""
    with db.read() as snapshot:
        own = profiles.list_profile_bodies(snapshot)
    all_ = {**BUILT_IN, **{name: from_json(name, body) for name, body in own.items()}}
    return page_of_few(map(_shown, all_.values()), filters, page, key="name", sorts=SORTS)


def show_profile(db: Database, name: str) -> dict[str, Any]:
    """Return one profile. Raises NotFound."""
    with db.read() as snapshot:
        profile = find_profile(snapshot, name)
    if profile is None:
        raise NotFound(f"There is no profile {name}. PUT /v1/profiles/{name} makes one.")
    return _shown(profile)


def set_profile(
    db: Database, name: str, body: Mapping[str, Any], *, actor: Actor, now: datetime
) -> tuple[dict[str, Any], bool]:
    """Write a profile; returns it and whether it is new. The same again writes nothing. Raises InvalidField."""
    profile = from_json(name, body)
    stored = profile.to_json()
    with db.write(now) as tx:
        before = profiles.find_profile_body(tx, name)
        if before == stored:
            return _shown(profile), False
        in_force = find_profile(tx, name)
        profiles.save_profile(tx, name, stored)
        if in_force is None or in_force.to_json() != stored:
            _begin_anew(tx, name, actor)
        tx.record(Draft(EventType.PROFILE_SET, actor, (Subject(SubjectKind.PROFILE, name),), {"profile": stored}))
    return _shown(profile), before is None


def _begin_anew(tx: Transaction, name: str, actor: Actor) -> None:
    """What nodes of a profile proved, they proved of what it asked before."""
    for node_id in profiles.nodes_of_profile(tx, name):
        node, state = nodes.get_node_by_id(tx, node_id), nodes.find_state(tx, node_id, lock=True)
        if node is None or state is None:
            continue
        passes.reset(tx, node.name, state, why="profile_changed", detail=name, actor=actor)
        state.counted_start = state.counted_end = None
        state.digest = {}
        nodes.save_state(tx, state)


def _shown(profile: Profile) -> dict[str, Any]:
    return {**profile.to_json(), "built_in": profile.built_in}
