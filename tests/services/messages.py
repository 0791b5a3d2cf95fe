# SPDX-License-Identifier: Apache-2.0
"""How is a courier tested? With a receiver that answers as it is told, no threads, no chance, and the test's clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from registry.domain.webhooks import Filter
from registry.services import leasing, webhooks
from registry.services.courier import Courier
from registry.services.pages import PageRequest
from registry.services.sending import Answer, NotSent
from registry.services.webhooks import NewSubscription
from registry.store.database import Database
from registry.store.history import page_events
from tests.clock import Clock
from tests.fleet import ALICE
from tests.store.drafts import make_draft

PEPPER = b"pepper-of-the-tests-0123456789abcdef"
URL = "https://hooks.example/in/secret-path?key=hush"
ALL = PageRequest(1000, None, newest_first=False)


@dataclass(frozen=True)
class Taken:
    """One message as it came."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def sequence(self) -> int:
        return int(self.document["sequence"])


@dataclass
class Receiver:
    """Answers what `judge` says of a message: a status, an Answer, or None for no answer at all."""

    judge: Callable[[Taken], int | Answer | None] = lambda _: 200
    asked: list[Taken] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        message = Taken(url, dict(headers), body)
        self.asked.append(message)
        found = self.judge(message)
        if found is None:
            raise NotSent("hooks.example cannot be reached: timed out")
        answer = found if isinstance(found, Answer) else Answer(found)
        if answer.is_taken:
            self.taken.append(message)
        return answer

    @property
    def sequences(self) -> list[int]:
        """The events that arrived, in their order."""
        return [one.sequence for one in self.taken]


@dataclass(frozen=True)
class Told:
    """What settings say about messages."""

    public_url: str | None = None
    allow_private_sinks: tuple[str, ...] = ()


@dataclass
class Post:
    """A service with a courier, and whoever is told."""

    db: Database
    clock: Clock
    receiver: Receiver = field(default_factory=Receiver)
    told: Told = field(default_factory=Told)
    holder: str = "one"

    def __post_init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Let another process take over: it remembers nothing."""
        self.courier = Courier(
            self.db,
            self.told,
            PEPPER,
            clock=self.clock,
            send=self.receiver,
            start=lambda work: work(),
            chance=lambda: 0.0,
        )

    def subscribe(self, *, url: str = URL, **how: Any) -> str:
        """Make a subscription and return its id."""
        names = {name: how.pop(name) for name in ("types", "causes", "profiles") if name in how}
        asked = replace(NewSubscription(url, **how), filter=Filter(**names))
        shown, self.secret = webhooks.create_subscription(
            self.db, asked, pepper=PEPPER, actor=ALICE, now=self.clock.now
        )
        return str(shown["id"])

    def show(self, id_: str) -> dict[str, Any]:
        """What is shown of it."""
        return webhooks.show_subscription(self.db, id_, now=self.clock.now)

    def deliveries(self, id_: str, **filters: str) -> list[dict[str, Any]]:
        """Its deliveries, the oldest first."""
        return webhooks.list_deliveries(self.db, id_, filters, ALL).items

    def happen(self, *nodes: str, **data: Any) -> list[int]:
        """Write an event about each of these nodes, and return their sequences."""
        with self.db.write(self.clock.now) as tx:
            before = tx.sequence()
            for name in nodes:
                tx.record(make_draft(name, **{"node": name, **data}))
        return [before + number for number in range(1, len(nodes) + 1)]

    def go(self, rounds: int = 1) -> None:
        """Go around as the process that has the lease."""
        for _ in range(rounds):
            lease = leasing.take(self.db, leasing.BACKGROUND, self.holder, now=self.clock.now)
            assert lease is not None
            self.courier.go_around(lease)

    def wait(self, seconds: float, step: float = 1) -> None:
        """Let time pass, going around every `step` seconds as the server does."""
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            self.go()

    def types(self) -> list[str]:
        """The types of all events, the oldest first."""
        with self.db.read() as snapshot:
            return [str(one.type) for one in page_events(snapshot, limit=1000)]
