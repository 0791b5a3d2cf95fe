# SPDX-License-Identifier: Apache-2.0
"""How is one entry proved to somebody who has a checkpoint and not the history? By the few hashes beside its way up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from registry.domain.errors import NotFound
from registry.domain.events import Event
from registry.domain.merkle import inclusion_path
from registry.store import checkpoints as store
from registry.store.database import Snapshot
from registry.store.subtrees import Tree


def prove(snapshot: Snapshot, events: Iterable[Event]) -> tuple[dict[str, Any], dict[int, dict[str, Any] | None]]:
    """Return the newest checkpoint and, by sequence, the proof that each event is in the tree that it signs.

    A proof is `{"size", "path"}`: how many entries the tree has, and the hashes from the leaf up. An entry that is
    newer than the checkpoint has None. Raises NotFound before the first checkpoint.
    """
    newest = store.find_newest(snapshot)
    if newest is None:
        raise NotFound("Nothing can be proved before the first checkpoint.")
    tree = Tree(snapshot)
    proofs: dict[int, dict[str, Any] | None] = {}
    for event in events:
        proofs[event.sequence] = None
        if event.sequence <= newest.sequence:
            path = inclusion_path(event.sequence - 1, newest.sequence, tree.hash_of)
            proofs[event.sequence] = {"size": newest.sequence, "path": [one.hex() for one in path]}
    return newest.to_json(), proofs
