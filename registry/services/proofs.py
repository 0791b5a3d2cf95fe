# SPDX-License-Identifier: Apache-2.0
"""How is one entry proved to somebody who has a checkpoint and not the history? By the few hashes beside its way up."""

from __future__ import annotations

from typing import Any

from registry.domain.errors import FieldError, InvalidField
from registry.domain.events import Event
from registry.domain.merkle import inclusion_path
from registry.store.database import Snapshot
from registry.store.subtrees import Tree


class Prover:
    """Proves entries of one snapshot to whoever has the checkpoint of entry `size`."""

    def __init__(self, snapshot: Snapshot, size: int) -> None:
        """Raises InvalidField when the history has not so many entries."""
        if size > (head := snapshot.sequence()):
            detail = f"the history has {head} entries; give the sequence of a checkpoint of it"
            raise InvalidField(f"proof: {detail}", errors=(FieldError("/proof", detail),))
        self._size = size
        self._tree = Tree(snapshot)

    def show(self, event: Event) -> dict[str, Any]:
        """Give an event with its `proof`: `size`, which is the checkpoint's sequence, and `path`, from the leaf up.

        One that the checkpoint does not cover has null.
        """
        if event.sequence > self._size:
            return {**event.to_json(), "proof": None}
        path = inclusion_path(event.sequence - 1, self._size, self._tree.hash_of)
        return {**event.to_json(), "proof": {"size": self._size, "path": [one.hex() for one in path]}}
