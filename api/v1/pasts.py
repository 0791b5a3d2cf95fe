# SPDX-License-Identifier: Apache-2.0
"""What may the history of one thing be narrowed by? The same for every thing that has one."""

from __future__ import annotations

from api.pagination import Words
from registry.domain.events import EventType

FILTERS = frozenset({"sequence", "type", "actor", "since", "until"})
WORDS: Words = {"type": EventType}
"""The values of the filters that have few."""
