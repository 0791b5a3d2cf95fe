# SPDX-License-Identifier: Apache-2.0
"""Who of several controllers acts? Whoever holds the Lease object, and only while it surely does.

No clock is compared with another machine's: whoever waits counts from when it saw the holder's last renewal itself,
for as long as the lease lasts; whoever holds stops a third earlier, counted from before it asked for the renewal.
What the fields mean: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from registry.controller.api_server import ApiError, ApiServer, Conflict, Missing
from registry.controller.logs import Say
from registry.domain.times import rfc3339

LEASE_SECONDS = 15.0
"""How long a lease lasts. Kubernetes' own controllers use 15, 10 and 2 seconds for the three."""

HELD_SHARE = 2 / 3
"""The part of it in which its holder may act after a renewal; what is left is room for writes under way."""

PERIOD_SHARE = 2 / 15
"""The part of it between two looks."""

_API = "coordination.k8s.io/v1"


@dataclass(slots=True)
class Lease:
    """A claim to a Lease object, kept up by `step` every `period` seconds.

    `monotonic` counts seconds, `now` gives the times that are written for people.
    """

    api: ApiServer
    namespace: str
    name: str
    identity: str
    say: Say
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    seconds: float = LEASE_SECONDS
    on_change: Callable[[], None] = lambda: None
    _held_until: float = field(default=-math.inf, init=False)
    _observed: tuple[object, ...] | None = field(default=None, init=False)
    _observed_at: float = field(default=0.0, init=False)
    _anothers_until: float = field(default=-math.inf, init=False)
    _was_held: bool = field(default=False, init=False)
    _said: str = field(default="", init=False)

    @property
    def period(self) -> float:
        """Seconds between two steps."""
        return self.seconds * PERIOD_SHARE

    def is_held(self) -> bool:
        """May this one act now? Also true with nobody to ask, for as long as nobody else can have begun."""
        return self.monotonic() < self._held_until

    def step(self) -> None:
        """Take the lease, or renew it, where that can be done now. Never raises for what the API server says."""
        try:
            self._step()
        except Conflict:
            pass  # somebody was faster; the next look shows who
        except ApiError as error:
            self._tell("the lease cannot be kept up", error.detail)
        if self.is_held() != self._was_held:
            self._was_held = self.is_held()
            self._tell("this controller acts" if self._was_held else "this controller acts no longer")
            self.on_change()

    def release(self) -> None:
        """Give the lease back, if it is ours, so that another need not wait. Call it when nothing acts any more."""
        if not self.is_held():
            return
        self._held_until = -math.inf
        try:
            lease = self.api.get(self._path())
            if _spec(lease).get("holderIdentity") == self.identity:
                self.api.replace(self._path(), self._written(lease, holder="", seconds=1))
                self.say("the lease is given back")
        except ApiError as error:
            self.say("the lease could not be given back and runs out", level="warning", detail=error.detail)

    def _step(self) -> None:
        started = self.monotonic()
        try:
            lease = self.api.get(self._path())
        except Missing:
            if self.monotonic() < self._anothers_until:  # somebody deleted the object under its holder
                return
            self.api.create(self._leases(), self._written({}, holder=self.identity, seconds=self.seconds))
            self._held_until = started + self.seconds * HELD_SHARE
            return
        if self._is_anothers(_spec(lease)):
            self._held_until = -math.inf
            return
        self.api.replace(self._path(), self._written(lease, holder=self.identity, seconds=self.seconds))
        self._held_until = started + self.seconds * HELD_SHARE

    def _is_anothers(self, spec: Mapping[str, Any]) -> bool:
        """Does somebody else hold it, as far as can be told from watching it?"""
        seen = tuple(spec.get(name) for name in ("holderIdentity", "renewTime", "acquireTime", "leaseTransitions"))
        if seen != self._observed:
            self._observed, self._observed_at = seen, self.monotonic()
        holder, lasts = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
        if not holder or holder == self.identity:
            self._anothers_until = -math.inf
        else:
            self._anothers_until = self._observed_at + max(self.seconds, lasts if isinstance(lasts, int) else 0)
        return self.monotonic() < self._anothers_until

    def _written(self, lease: Mapping[str, Any], *, holder: str, seconds: float) -> dict[str, Any]:
        """Write the object anew, over the version that was read and no other."""
        spec, now = _spec(lease), rfc3339(self.now())
        is_new_holder = spec.get("holderIdentity") != holder
        before = spec.get("leaseTransitions")
        changed = {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(seconds),
            "renewTime": now,
            "acquireTime": now if is_new_holder else spec.get("acquireTime") or now,
            "leaseTransitions": (before if isinstance(before, int) else 0) + (1 if lease and is_new_holder else 0),
        }
        metadata = lease.get("metadata") or {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": _API, "kind": "Lease", "metadata": metadata, "spec": {**spec, **changed}}

    def _path(self) -> str:
        return f"{self._leases()}/{quote(self.name, safe='')}"

    def _leases(self) -> str:
        return f"/apis/{_API}/namespaces/{self.namespace}/leases"

    def _tell(self, message: str, detail: str = "") -> None:
        """Say it, unless it was the last thing that was said."""
        if self._said != message + detail:
            self._said = message + detail
            self.say(message, identity=self.identity, **({"level": "warning", "detail": detail} if detail else {}))


def _spec(lease: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = lease.get("spec")
    return spec if isinstance(spec, Mapping) else {}
