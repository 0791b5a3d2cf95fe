# SPDX-License-Identifier: Apache-2.0
"""Is everything told, and in order, whatever receivers and servers do in between? Random stories try to lose something.

https://hypothesis.readthedocs.io/en/latest/stateful.html
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from registry.domain.webhooks import DeliveryState
from registry.services import webhooks
from registry.services.sending import Answer
from tests.clock import Clock
from tests.fleet import ALICE
from tests.properties.stories import Opener, depth, on_sqlite, tell
from tests.services.messages import PEPPER, Post, Receiver, Taken
from tests.store.drafts import make_draft

NODES = st.sampled_from([f"node-{number}" for number in range(3)])
STATUSES = st.sampled_from([200, 200, 200, None, 301, 404, 429, 500, 503])
WAITS = st.sampled_from([1, 6, 12, 31, 31, 61, 301, 1801, 36_001])


class Killed(BaseException):
    """The process is gone in the middle of something."""


class Messages(RuleBasedStateMachine):
    """One subscription, whose receiver and whose server fail as they like."""

    def __init__(self, open_db: Opener) -> None:
        super().__init__()
        db, self.close = open_db()
        self.down: int | None = 200
        self.refused: set[str] = set()
        self.kill_after: int | None = None
        self.happened: list[tuple[int, tuple[str, ...]]] = []
        self.was_dead = False
        self.post = Post(db, Clock(), receiver=Receiver(self.judge))

    @initialize()
    def subscribe(self) -> None:
        self.one = self.post.subscribe(types=("node.registered",))

    def judge(self, message: Taken) -> int | Answer | None:
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                raise Killed
        nodes = {one["id"] for one in message.document["data"]["subjects"]}
        if self.down == 429:
            return Answer(429, "30")
        return 400 if nodes & self.refused else self.down

    @rule(nodes=st.lists(NODES, min_size=1, max_size=2, unique=True), times=st.integers(1, 4))
    def happen(self, nodes: list[str], times: int) -> None:
        for _ in range(times):
            with self.post.db.write(self.post.clock.now) as tx:
                tx.record(make_draft(*nodes, node=nodes[0]))
                self.happened.append((tx.flush(), tuple(nodes)))

    @rule(status=STATUSES)
    def answer(self, status: int | None) -> None:
        self.down = status

    @rule(nodes=st.sets(NODES, max_size=2))
    def refuse(self, nodes: set[str]) -> None:
        self.refused = nodes

    @rule(seconds=WAITS)
    def wait(self, seconds: int) -> None:
        self.post.clock.advance(seconds)
        self.go()

    @rule(node=NODES, seconds=WAITS, status=st.sampled_from([200, 500]))
    def refuse_for_a_while(self, node: str, seconds: int, status: int) -> None:
        """A receiver takes offence at one node, and is asked about it twice."""
        self.down, self.refused = status, {node}
        self.happen([node], 1)
        for pause in (seconds, 6):
            self.wait(pause)
        self.down, self.refused = 200, set()
        self.happen([node], 1)
        self.wait(31)

    @rule(after=st.integers(0, 4))
    def kill(self, after: int) -> None:
        self.kill_after = after
        self.go()
        self.kill_after = None

    @rule()
    def take_over(self) -> None:
        self.post.start_anew()

    def go(self) -> None:
        try:
            self.post.go(2)
        except Killed:
            self.post.start_anew()
        self.was_dead |= self.post.show(self.one)["abandoned"] > 0

    def teardown(self) -> None:
        self.down, self.refused, self.kill_after = 200, set(), None
        if not self.post.show(self.one)["enabled"]:
            self.change(is_enabled=True)
        for _ in range(12):
            if self.post.show(self.one)["dead"]:
                webhooks.replay(self.post.db, self.one, None, actor=ALICE, now=self.post.clock.now)
            self.post.clock.advance(90_001)
            self.post.go(3)
        try:
            self.check()
        finally:
            self.close()

    def change(self, *, is_enabled: bool) -> None:
        webhooks.change_subscription(
            self.post.db, self.one, is_enabled=is_enabled, pepper=PEPPER, actor=ALICE, now=self.post.clock.now
        )

    def check(self) -> None:
        """Everything is told, under one id each, and of each node in order unless something was given up."""
        first = list(dict.fromkeys(self.post.receiver.sequences))
        assert sorted(first) == [sequence for sequence, _ in self.happened]
        assert len({(one.sequence, one.headers["webhook-id"]) for one in self.post.receiver.asked}) == len(
            {one.sequence for one in self.post.receiver.asked}
        )
        assert {row["state"] for row in self.post.deliveries(self.one)} <= {DeliveryState.DELIVERED}
        if not self.was_dead:
            about = dict(self.happened)
            for name in {name for _, nodes in self.happened for name in nodes}:
                own = [sequence for sequence in first if name in about[sequence]]
                assert own == sorted(own), name


def test_stories_of_receivers_and_servers_that_fail(sqlite_template: Path, tmp_path: Path) -> None:
    tell(Messages, on_sqlite(sqlite_template, tmp_path), depth(20))
