# SPDX-License-Identifier: Apache-2.0
"""What sets the standing passes of a node to zero from outside its own reports?"""

from __future__ import annotations

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.events import Draft, EventType
from registry.store.database import Transaction
from registry.store.lines import lines_of
from registry.store.nodes import NodeState, find_node, find_state, save_state


def reset(tx: Transaction, node: str, state: NodeState, *, why: str, detail: str | None, actor: Actor) -> None:
    """Set the passes in a state that the caller will save to zero; an event when there were any."""
    if state.have:
        tx.record(
            Draft(
                EventType.PASSES_RESET,
                actor,
                (Subject(SubjectKind.NODE, node),),
                {"node": node, "had": state.have, "why": why, "detail": detail},
            )
        )
    state.have = 0


def device_left(tx: Transaction, name: str, device_id: str, kind: str, *, to: str, actor: Actor) -> None:
    """Note that a device which this node listed was listed elsewhere since: its list is of one device too many now."""
    node = find_node(tx, name)
    state = find_state(tx, node.id, lock=True) if node else None
    if node is None or state is None:
        return
    listed = state.listed.get(kind)  # none yet in a boot that has sent no list
    if listed is not None and any(line["id"] == device_id for line in lines_of(tx, node.id).get(kind, [])):
        listed["count"] -= 1
    state.counted_start = state.counted_end = None
    state.digest = {}
    reset(tx, name, state, why="devices_changed", detail=f"{device_id} is on {to}", actor=actor)
    save_state(tx, state)


def fault_on(tx: Transaction, node: str, *, detail: str, actor: Actor) -> None:
    """Note that a blocking fault was recorded: only runs that start later count."""
    _set_back(tx, node, "fault_at", why="blocking_failure", detail=detail, actor=actor)


def released_on(tx: Transaction, node: str, *, detail: str, actor: Actor) -> None:
    """Note that a person released a hold that met the node: it has to prove itself anew."""
    _set_back(tx, node, "release_at", why="released_by_person", detail=detail, actor=actor)


def _set_back(tx: Transaction, name: str, mark: str, *, why: str, detail: str, actor: Actor) -> None:
    node = find_node(tx, name)
    state = find_state(tx, node.id, lock=True) if node else None
    if node is None or state is None:
        return
    setattr(state, mark, tx.now)
    reset(tx, name, state, why=why, detail=detail, actor=actor)
    save_state(tx, state)
