# SPDX-License-Identifier: Apache-2.0
"""What does the emulated cluster keep? Objects by kind and name, each change with a resourceVersion of its own."""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]


class Refused(Exception):
    """An answer that is a Status: its HTTP code, its reason and what it says; `retry_after` seconds as a header."""

    def __init__(self, code: int, reason: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after = code, reason, message, retry_after


class Denied(Refused):
    """What an admission hook raises: the change is not made, and the message says why."""

    def __init__(self, message: str, code: int = 403) -> None:
        super().__init__(code, "Forbidden", f"admission webhook denied the request: {message}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change that somebody wants to make. A hook may raise `Denied`, or change `new` in place (a mutation).

    `operation` is CREATE, UPDATE or DELETE, `resource` say `nodes`; `old` is None for CREATE, `new` for DELETE.
    """

    operation: str
    resource: str
    name: str
    old: Document | None
    new: Document | None
    subresource: str = ""
    user: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was made."""

    version: int
    resource: str
    old: Document | None
    new: Document | None


@dataclass
class Objects:
    """All objects, behind one lock, and the changes of them that can still be watched.

    `before_update` are the admission hooks, in the order in which they are asked.
    """

    before_update: list[Callable[[Attempt], None]] = field(default_factory=list)
    oldest: int = 0
    version: int = 100
    changes: list[Change] = field(default_factory=list)
    lock: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    _kept: dict[tuple[str, str, str], Document] = field(default_factory=dict)

    def all(self, resource: str, namespace: str = "") -> list[Document]:
        """Every object of a kind, by name."""
        with self.lock:
            return [
                copy.deepcopy(one)
                for (kind, space, _), one in sorted(self._kept.items())
                if kind == resource and namespace in {"", space}
            ]

    def get(self, resource: str, name: str, namespace: str = "") -> Document:
        """One object. Raises Refused."""
        with self.lock:
            found = self._kept.get((resource, namespace, name))
            if found is None:
                raise Refused(404, "NotFound", f'{resource} "{name}" not found')
            return copy.deepcopy(found)

    def create(self, resource: str, new: Document, namespace: str = "", **about: Any) -> Document:
        """Make an object. Raises Refused."""
        with self.lock:
            name = new["metadata"]["name"]
            if (resource, namespace, name) in self._kept:
                raise Refused(409, "AlreadyExists", f'{resource} "{name}" already exists')
            new = copy.deepcopy(new)
            new["metadata"] |= {
                "uid": str(uuid.uuid4()),
                "creationTimestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            }
            if namespace:
                new["metadata"]["namespace"] = namespace
            self._admit(Attempt("CREATE", resource, name, None, new, **about))
            return self._keep(resource, namespace, None, new, dry_run=about.get("dry_run", False))

    def update(
        self,
        resource: str,
        name: str,
        change: Callable[[Document], Document],
        namespace: str = "",
        *,
        subresource: str = "",
        is_patch: bool = False,
        **about: Any,
    ) -> Document:
        """Change an object: `change` makes the new one of the old. Raises Refused.

        Another version is 409. So is another uid of an object that is replaced; a patch that names one is 422, because
        it would change what nobody may change.
        """
        with self.lock:
            old = self.get(resource, name, namespace)
            new = change(copy.deepcopy(old))
            given, kept = new.get("metadata") or {}, old["metadata"]
            for mark in ("resourceVersion", "uid"):
                if given.get(mark, kept[mark]) != kept[mark]:
                    if mark == "uid" and is_patch:
                        raise Refused(422, "Invalid", f'{resource} "{name}": metadata.uid: field is immutable')
                    raise Refused(409, "Conflict", f'{resource} "{name}": {mark} is {kept[mark]}, not {given[mark]}')
            # A subresource changes its own part alone, the main one everything else.
            new = {**old, "status": new.get("status")} if subresource else {**new, "status": old.get("status")}
            if new["status"] is None:
                del new["status"]
            new["metadata"] = {**new["metadata"], "uid": kept["uid"], "name": name}
            self._admit(Attempt("UPDATE", resource, name, copy.deepcopy(old), new, subresource, **about))
            new["metadata"]["resourceVersion"] = kept["resourceVersion"]
            if new == old:
                return new
            return self._keep(resource, namespace, old, new, dry_run=about.get("dry_run", False))

    def delete(self, resource: str, name: str, namespace: str = "", **about: Any) -> Document:
        """Remove an object. Raises Refused."""
        with self.lock:
            old = self.get(resource, name, namespace)
            self._admit(Attempt("DELETE", resource, name, copy.deepcopy(old), None, **about))
            if not about.get("dry_run"):
                del self._kept[resource, namespace, name]
                self.version += 1
                old["metadata"]["resourceVersion"] = str(self.version)
                self._tell(Change(self.version, resource, old, None))
            return old

    def since(self, version: int, resource: str) -> Iterator[Change]:
        """The changes after a version. Raises Refused with 410 where they are forgotten."""
        with self.lock:
            if version < self.oldest:
                raise Refused(410, "Expired", f"too old resource version: {version} ({self.oldest})")
            return iter([one for one in self.changes if one.version > version and one.resource == resource])

    def compact(self) -> None:
        """Forget all changes: a watch from an older version gets 410."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.changes.clear()
            self.lock.notify_all()

    def _admit(self, attempt: Attempt) -> None:
        for hook in self.before_update:
            hook(attempt)

    def _keep(self, resource: str, namespace: str, old: Document | None, new: Document, *, dry_run: bool) -> Document:
        if not dry_run:
            self.version += 1
            new["metadata"]["resourceVersion"] = str(self.version)
            self._kept[resource, namespace, new["metadata"]["name"]] = new
            self._tell(Change(self.version, resource, old, copy.deepcopy(new)))
        return copy.deepcopy(new)

    def _tell(self, change: Change) -> None:
        self.changes.append(change)
        self.lock.notify_all()
