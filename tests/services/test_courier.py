# SPDX-License-Identifier: Apache-2.0
"""Does every event get to whoever subscribed to it, in order, at least once, whatever fails on the way?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.webhooks import SCHEDULE_SECONDS, TRIES
from registry.services import leasing, rounds, webhooks
from registry.services.sending import Answer
from registry.store.database import Database
from tests.clock import Clock
from tests.fleet import ALICE
from tests.services.messages import PEPPER, URL, Post, Taken


@pytest.fixture
def post(db: Database, clock: Clock) -> Post:
    return Post(db, clock)


def test_what_happens_after_it_was_made_is_told_once_and_in_order(post: Post) -> None:
    post.happen("node-a")
    post.subscribe()
    happened = post.happen("node-a", "node-b", "node-a")

    post.go(3)
    happened += post.happen("node-b")
    post.go(3)

    assert post.receiver.sequences == happened
    assert {one.url for one in post.receiver.asked} == {URL}


def keep_busy(post: Post, *, hours: int) -> None:
    """Let something happen elsewhere all the time, so that the receiver is known to be there."""
    for _ in range(hours):
        post.happen("node-elsewhere")
        post.wait(3600, step=3600)


def test_without_a_subscription_nothing_is_written_or_read(post: Post) -> None:
    post.happen("node-a")
    before = post.types()

    post.go(2)

    assert post.types() == before
    assert post.receiver.asked == []


def test_an_event_that_arrives_at_once_leaves_no_row(post: Post) -> None:
    one = post.subscribe()
    happened = post.happen("node-a", "node-b")
    post.go()

    assert post.deliveries(one) == []
    shown = post.show(one)
    assert (shown["position"], shown["delivered"], shown["pending"], shown["dead"]) == (happened[-1], 2, 0, 0)


def test_filters_are_all_met_or_nothing_is_told(post: Post) -> None:
    typed = post.subscribe(url="https://a.example/", types=("node.*",))
    post.subscribe(url="https://b.example/", types=("quarantine.opened",))
    post.subscribe(url="https://c.example/", causes=("power",), types=("node.booted", "node.registered"))
    happened = post.happen("node-a")
    power = post.happen("node-a", cause="power")
    post.go()

    told = {(one.url, one.sequence) for one in post.receiver.taken}
    assert {sequence for url, sequence in told if url == "https://a.example/"} == {*happened, *power}
    assert [pair for pair in told if pair[0] == "https://b.example/"] == []
    assert [pair[1] for pair in told if pair[0] == "https://c.example/"] == power
    assert post.show(typed)["delivered"] == 2


def test_a_failed_event_holds_up_its_own_subjects_only(post: Post) -> None:
    one = post.subscribe()
    first, other, second = post.happen("node-a", "node-b", "node-a")
    post.receiver.judge = lambda message: 400 if message.sequence == first else 200

    post.go()
    post.wait(30)

    assert post.receiver.sequences == [other]
    assert [(row["event"], row["state"]) for row in post.deliveries(one)] == [(first, "pending"), (second, "pending")]
    post.receiver.judge = lambda _: 200
    post.wait(SCHEDULE_SECONDS[1])
    assert post.receiver.sequences == [other, first, second]
    assert {row["state"] for row in post.deliveries(one)} == {"delivered"}


def test_tries_follow_the_schedule_and_then_it_is_a_dead_letter_that_is_told_once(post: Post) -> None:
    one = post.subscribe(types=("node.*",))
    watcher = post.subscribe(url="https://watch.example/", types=("delivery.abandoned",))
    (event,) = post.happen("node-a", serial="1654000000001")
    post.receiver.judge = lambda message: 422 if message.url == URL else 200
    tried = []

    post.go()
    while len(tried) < 400 and post.deliveries(one)[0]["state"] == "pending":
        post.wait(1800, step=1800)
        tried.append(post.deliveries(one)[0]["attempts"])

    (row,) = post.deliveries(one)
    assert (row["state"], row["attempts"], row["event"], row["status"]) == ("dead", TRIES, event, 422)
    asked = [message for message in post.receiver.asked if message.url == URL]
    assert {message.headers["webhook-id"] for message in asked} == {asked[0].headers["webhook-id"]}
    assert len({message.headers["webhook-timestamp"] for message in asked}) == len(asked)
    assert post.types().count("delivery.abandoned") == 1
    post.go()
    (told,) = post.receiver.taken
    data = told.document["data"]
    assert (data["subscription"], data["event"], data["serial"]) == (one, event, "1654000000001")
    assert post.show(one)["dead"] == 1
    post.wait(86_400, step=3600)
    assert post.show(watcher)["delivered"] == 1


def test_the_first_tries_come_when_the_schedule_says(post: Post) -> None:
    post.subscribe()
    (event,) = post.happen("node-a")
    began = post.clock.now
    post.receiver.judge = lambda _: 400
    post.go()
    post.wait(320)

    times = [int(one.headers["webhook-timestamp"]) - int(began.timestamp()) for one in post.receiver.asked]
    assert times == [0, 5, 305]
    assert {one.sequence for one in post.receiver.asked} == {event}


def test_a_dead_letter_is_replayed_by_its_id_or_with_all_under_the_same_message_id(post: Post) -> None:
    one = post.subscribe()
    events = post.happen("node-a", "node-b")
    post.receiver.judge = lambda message: 400 if message.sequence in events else 200
    keep_busy(post, hours=110)
    post.receiver.taken.clear()
    rows = post.deliveries(one, state="dead")
    assert [row["event"] for row in rows] == events
    assert post.show(one)["dead"] == 2
    ids = {message.sequence: message.headers["webhook-id"] for message in post.receiver.asked}
    post.receiver.judge = lambda _: 204

    webhooks.replay(post.db, one, [rows[1]["id"]], actor=ALICE, now=post.clock.now)
    post.wait(600)
    assert post.receiver.sequences == [events[1]]
    assert webhooks.replay(post.db, one, None, actor=ALICE, now=post.clock.now) == {"replayed": 1}
    post.wait(600)

    assert post.receiver.sequences == [events[1], events[0]]
    assert {one.headers["webhook-id"] for one in post.receiver.taken} == {ids[event] for event in events}
    assert post.show(one)["dead"] == 0


@pytest.mark.parametrize("status", [None, 503])
def test_a_receiver_that_is_down_for_an_hour_misses_nothing_and_hears_of_it_soon(
    post: Post, status: int | None
) -> None:
    one = post.subscribe()
    post.receiver.judge = lambda _: status
    happened: list[int] = []
    for number in range(30):
        happened += post.happen(f"node-{number % 7}", f"node-{number % 3}")
        post.wait(120, step=20)
        if number == 15:
            post.start_anew()
    assert len(post.receiver.asked) < 30, "a receiver that is away is not asked for each event"
    assert sum(row["attempts"] > 0 for row in post.deliveries(one)) < 15

    post.receiver.judge = lambda _: 200
    post.wait(400, step=20)

    assert sorted(set(post.receiver.sequences)) == happened
    assert len(post.receiver.sequences) == len(happened)
    for name in {f"node-{number}" for number in range(7)}:
        own = [one.sequence for one in post.receiver.taken if one.document["subject"] == f"node/{name}"]
        assert own == sorted(own)
    assert post.show(one)["failing_since"] is None


def test_one_event_that_is_always_refused_does_not_keep_the_rest_back(post: Post) -> None:
    post.subscribe()
    (poison,) = post.happen("node-p")
    post.receiver.judge = lambda message: 500 if message.sequence == poison else 200
    post.go()
    happened: list[int] = []
    for number in range(8):
        happened += post.happen(f"node-{number}")
        post.wait(600, step=20)
        assert post.receiver.sequences == happened


def test_one_that_took_nothing_for_a_week_is_switched_off_and_can_go_on_where_it_was(post: Post) -> None:
    one = post.subscribe()
    post.receiver.judge = lambda _: 404
    happened: list[int] = []
    for number in range(29):
        happened += post.happen(f"node-{number}")
        post.wait(6 * 3600, step=3600)

    shown = post.show(one)
    assert (shown["enabled"], shown["disabled_because"]) == (False, "nothing arrived for 7 days: answered 404")
    assert shown["dead"] + shown["pending"] + shown["behind"] >= len(happened)
    post.receiver.judge = lambda _: 200
    webhooks.change_subscription(post.db, one, is_enabled=True, pepper=PEPPER, actor=ALICE, now=post.clock.now)
    webhooks.replay(post.db, one, None, actor=ALICE, now=post.clock.now)
    post.wait(60)
    assert set(happened) <= set(post.receiver.sequences)


def test_retry_after_is_heeded_and_410_switches_off(post: Post) -> None:
    one = post.subscribe()
    post.happen("node-a", "node-b")
    post.receiver.judge = lambda _: Answer(429, "120")
    post.go()
    post.wait(119)
    assert len(post.receiver.asked) == 1
    post.receiver.judge = lambda _: 410
    post.wait(5)

    shown = post.show(one)
    assert len(post.receiver.asked) == 2
    assert (shown["enabled"], "410" in shown["disabled_because"]) == (False, True)
    assert post.types()[-1] == "subscription.changed"
    post.wait(600, step=10)
    assert len(post.receiver.asked) == 2

    post.receiver.judge = lambda _: 200
    webhooks.change_subscription(post.db, one, is_enabled=True, pepper=PEPPER, actor=ALICE, now=post.clock.now)
    post.wait(10)
    assert len(post.receiver.sequences) == 2


def test_what_was_sent_and_not_written_down_when_the_process_died_is_sent_again(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    post.subscribe()
    happened = post.happen("node-a", "node-b", "node-c")

    def die(_: Taken) -> int:
        if len(post.receiver.asked) == 2:
            raise KeyboardInterrupt
        return 200

    post.receiver.judge = die
    with pytest.raises(KeyboardInterrupt):
        post.go()
    post.start_anew()
    post.receiver.judge = lambda _: 200
    post.go()

    assert post.receiver.sequences == [happened[0], *happened]


def test_whoever_has_lost_the_lease_writes_nothing_down(post: Post, db: Database) -> None:
    one = post.subscribe()
    happened = post.happen("node-a")

    def lose(_: Taken) -> int:
        with db.write(post.clock.now) as tx:
            tx.execute("UPDATE lease SET until_at = 0")
        assert leasing.take(db, leasing.BACKGROUND, "another", now=post.clock.now) is not None
        return 200

    post.receiver.judge = lose
    post.go()
    assert post.show(one)["delivered"] == 0

    other = Post(db, post.clock, holder="another")
    other.go()
    assert other.receiver.sequences == happened
    assert post.show(one)["delivered"] == 1


def test_a_subscription_is_not_told_of_itself_and_two_do_not_tell_each_other_for_ever(post: Post) -> None:
    first, second = post.subscribe(), post.subscribe()
    post.receiver.judge = lambda message: 200 if message.document["type"].startswith("node.") else 400
    webhooks.change_subscription(post.db, first, description="x", pepper=PEPPER, actor=ALICE, now=post.clock.now)
    keep_busy(post, hours=190)

    assert post.types().count("delivery.abandoned") == 2, "second's own creation, and first's change"
    assert post.show(second)["abandoned"] + post.show(first)["abandoned"] == 4
    own = [row["type"] for row in post.deliveries(first)]
    assert own == ["subscription.created", "delivery.abandoned"]


def test_what_may_wait_beside_the_history_is_bounded_and_nothing_is_lost_by_it(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PENDING_MAX", 5)
    one = post.subscribe()
    (poison,) = post.happen("node-p")
    happened = post.happen(*["node-p"] * 10, "node-q")
    post.receiver.judge = lambda message: 400 if message.sequence == poison else 200
    post.go()
    post.wait(200, step=10)
    assert post.show(one)["pending"] == 5
    assert post.receiver.sequences == []

    post.receiver.judge = lambda _: 200
    post.wait(400, step=10)
    assert post.receiver.sequences == [poison, *happened]


def test_events_that_concern_nobody_cost_no_commit_until_there_are_many(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "SAVE_EVERY", 6)
    one = post.subscribe(types=("quarantine.opened",))
    begun = post.show(one)["position"]
    post.happen(*["node-a"] * 4)
    post.go(2)
    assert post.show(one)["position"] == begun
    last = post.happen(*["node-a"] * 4)[-1]
    post.go(2)

    assert post.show(one)["position"] == last
    assert post.receiver.asked == []


def test_one_that_is_switched_on_goes_on_where_it_stopped_or_skips(post: Post) -> None:
    one, two = post.subscribe(url="https://a.example/"), post.subscribe(url="https://b.example/")

    def switch(id_: str, *, on: bool, skips: bool = False) -> None:
        webhooks.change_subscription(
            post.db, id_, is_enabled=on, skips=skips, pepper=PEPPER, actor=ALICE, now=post.clock.now
        )

    post.go()
    post.receiver.taken.clear()
    switch(one, on=False)
    switch(two, on=False)
    happened = post.happen("node-a")
    post.go()
    assert post.receiver.asked[-1].document["type"] == "subscription.created"
    switch(one, on=True)
    switch(two, on=True, skips=True)
    later = post.happen("node-b")
    post.go(2)

    heard = {
        url: [m.sequence for m in post.receiver.taken if m.url == url]
        for url in ("https://a.example/", "https://b.example/")
    }
    assert set(happened + later) <= set(heard["https://a.example/"])
    assert heard["https://b.example/"] == later


def test_a_ping_says_in_one_try_whether_the_way_is_open(post: Post) -> None:
    one = post.subscribe()
    sent = webhooks.send_ping(post.db, one, now=post.clock.now)
    assert (sent["state"], sent["event"]) == ("pending", None)
    post.go()
    (message,) = post.receiver.taken
    assert message.document["type"] == "webhook.ping"
    assert post.deliveries(one)[0]["state"] == "delivered"

    post.receiver.judge = lambda _: 404
    webhooks.send_ping(post.db, one, now=post.clock.now)
    post.go()
    row = post.deliveries(one)[1]
    assert (row["state"], row["status"], row["error"]) == ("dead", 404, "answered 404")
    assert post.show(one)["dead"] == 0, "no event was given up"


def test_rows_of_what_arrived_are_forgotten_after_a_week(post: Post) -> None:
    one = post.subscribe()
    webhooks.send_ping(post.db, one, now=post.clock.now)
    post.go()
    post.clock.advance(timedelta(days=7, seconds=1).total_seconds())
    post.go()

    assert post.deliveries(one) == []


def test_an_event_that_somebody_edited_stops_nobody(post: Post, db: Database) -> None:
    post.subscribe()
    bad, good = post.happen("node-a", "node-b")
    with db.write(post.clock.now) as tx:
        guard = "event_no_update"
        tx.execute(f"DROP TRIGGER {guard}" + ("" if db.engine == "sqlite" else " ON event"))
        tx.execute("UPDATE event SET body = 'x' WHERE sequence = ?", (bad,))
    post.go()

    assert post.receiver.sequences == [good]


def test_a_removed_subscription_hears_nothing_more(post: Post) -> None:
    one = post.subscribe()
    post.happen("node-a")

    def remove(_: Taken) -> int:
        webhooks.remove_subscription(post.db, one, actor=ALICE, now=post.clock.now)
        return 500

    post.receiver.judge = remove
    post.go()
    post.wait(30)

    assert len(post.receiver.asked) == 1
    with post.db.read() as snapshot:
        assert snapshot.all("SELECT url FROM subscription") == [("",)]
        assert snapshot.all("SELECT 1 FROM subscription_secret") == []
