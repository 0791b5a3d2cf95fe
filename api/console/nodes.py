# SPDX-License-Identifier: Apache-2.0
"""Which nodes are there, and how does it stand with each? A list that is narrowed in its address."""

from __future__ import annotations

from flask import Blueprint, Response

from api.console.pages import PERSONS, page, render
from api.context import database, now, policy
from api.pagination import Words, cursor_of, listing
from registry.domain.node_status import NodeStatus
from registry.services.node_view import words_of_nodes
from registry.services.nodes import LOOKED_AT_MAX, list_nodes

bp = Blueprint("console_nodes", __name__)

FILTERS = frozenset({"name", "state", "profile", "zone", "provider_id"})
WORDS: Words = {"state": NodeStatus}
"""The values of the filters that have few."""
LINES = 50
"""Nodes on one page, unless the address asks for more or fewer."""


@bp.get("/nodes")
@page(*PERSONS)
def index() -> Response:
    """List the nodes, newest first. Raises InvalidField."""
    filters, part = listing(FILTERS, WORDS, limit=LINES)
    found = list_nodes(database(), filters, part, policy=policy(), now=now())
    profiles, zones = words_of_nodes(database())
    return render(
        "nodes.html",
        nodes=found.items,
        next=cursor_of(found),
        looked_at=LOOKED_AT_MAX if found.next and len(found.items) < part.limit else None,
        filters=filters,
        states=[str(state) for state in NodeStatus],
        profiles=profiles,
        zones=zones,
    )
