# SPDX-License-Identifier: Apache-2.0
"""Do receivers that know only the specification take our signatures, and is what signs them safe where it is kept?"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from registry.domain.webhooks import Algorithm
from registry.services import webhooks
from registry.services.webhook_keys import Safe, Unreadable, make_secret, sign
from registry.store.database import Database
from tests.clock import Clock
from tests.fleet import ALICE
from tests.services.messages import PEPPER, Post, Taken


@pytest.fixture
def post(db: Database) -> Post:
    """A service whose clock is right: the reference library looks at its own."""
    return Post(db, Clock(datetime.now(UTC)))


def rotate(post: Post, id_: str, keep: timedelta) -> str | None:
    return webhooks.rotate_secret(post.db, id_, keep=keep, pepper=PEPPER, actor=ALICE, now=post.clock.now)[1]


def is_taken(secret: str | None, message: Taken) -> bool:
    """Whether the reference library takes a message."""
    assert secret is not None
    try:
        Webhook(secret).verify(message.body, dict(message.headers))
    except WebhookVerificationError:
        return False
    return True


def test_the_reference_library_takes_every_try_and_reads_the_same_document(post: Post) -> None:
    post.subscribe()
    (event,) = post.happen("node-ä", reason="fell off “twice”")
    post.receiver.judge = lambda _: 500
    post.go()
    post.wait(6)

    for message in post.receiver.asked:
        document = Webhook(str(post.secret)).verify(message.body, dict(message.headers))
        assert int(document["sequence"]) == event
        assert document == json.loads(message.body)
    assert len(post.receiver.asked) == 2


def test_a_message_that_somebody_changed_is_refused(post: Post) -> None:
    post.subscribe()
    post.happen("node-a")
    post.go()
    (message,) = post.receiver.taken

    for changed in (
        Taken("", message.headers, message.body.replace(b"node-a", b"node-b")),
        Taken("", {**message.headers, "webhook-id": "evt_1_0"}, message.body),
        Taken("", {**message.headers, "webhook-timestamp": str(int(post.clock.now.timestamp()) + 1)}, message.body),
    ):
        assert not is_taken(post.secret, changed)


def test_both_secrets_sign_until_the_old_one_is_dropped(post: Post) -> None:
    one = post.subscribe()
    old, new = post.secret, rotate(post, one, timedelta(seconds=60))
    post.happen("node-a")
    post.go()
    both = post.receiver.taken[-1]
    assert (is_taken(old, both), is_taken(new, both)) == (True, True)
    assert len(both.headers["webhook-signature"].split(" ")) == 2
    assert [key["drop_at"] is None for key in post.show(one)["keys"]] == [True, False]

    post.clock.advance(61)
    post.happen("node-a")
    post.go()
    assert (is_taken(old, post.receiver.taken[-1]), is_taken(new, post.receiver.taken[-1])) == (False, True)
    assert len(post.show(one)["keys"]) == 1


def test_a_third_secret_drops_the_first_and_nothing_kept_drops_the_old_at_once(post: Post) -> None:
    one = post.subscribe()
    first, second = post.secret, rotate(post, one, timedelta(days=1))
    third = rotate(post, one, timedelta(days=1))
    post.happen("node-a")
    post.go()
    assert [is_taken(secret, post.receiver.taken[-1]) for secret in (first, second, third)] == [False, True, True]

    fourth = rotate(post, one, timedelta(0))
    post.happen("node-a")
    post.go()
    assert [is_taken(secret, post.receiver.taken[-1]) for secret in (third, fourth)] == [False, True]


def test_ed25519_is_checked_with_the_public_key_over_what_the_specification_signs(post: Post) -> None:
    one = post.subscribe(algorithm=Algorithm.ED25519)
    assert post.secret is None, "the private half is nobody's"
    public = post.show(one)["keys"][0]["public_key"]
    post.happen("node-a")
    post.go()
    (message,) = post.receiver.taken

    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    version, _, signature = message.headers["webhook-signature"].partition(",")
    signed = f"{message.headers['webhook-id']}.{message.headers['webhook-timestamp']}.".encode() + message.body
    key.verify(base64.b64decode(signature), signed)
    assert version == "v1a"
    with pytest.raises(InvalidSignature):
        key.verify(base64.b64decode(signature), signed + b" ")


def test_a_signature_is_that_of_the_specification() -> None:
    """The secret and the id are of the kind that the specification shows; the value is the reference library's."""
    secret, at = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", datetime(2023, 1, 19, tzinfo=UTC)
    body = '{"type":"contact.created"}'

    assert sign(secret, "msg_1", int(at.timestamp()), body.encode()) == Webhook(secret).sign("msg_1", at, body)


def test_nothing_secret_is_kept_in_the_open_or_told_in_the_history(post: Post) -> None:
    one = post.subscribe()
    new = rotate(post, one, timedelta(days=1))
    post.receiver.judge = lambda _: None
    post.happen("node-a")
    post.go()
    assert post.secret is not None
    assert new is not None

    with post.db.read() as snapshot:
        rows = [
            snapshot.all(f"SELECT * FROM {table}")  # noqa: S608 - names of our own
            for table in ("subscription", "subscription_secret", "delivery", "event", "idempotency")
        ]
    for hidden in (post.secret, new, post.secret.removeprefix("whsec_"), "secret-path", "hush"):
        assert hidden not in str(rows)
        assert hidden not in str(post.show(one)) + str(post.deliveries(one))


def test_what_is_kept_is_read_by_no_other_pepper_and_in_no_other_place() -> None:
    safe = Safe(b"a" * 32)
    sealed = safe.seal("whsec_x", "secret:1")

    assert safe.open(sealed, "secret:1") == "whsec_x"
    assert safe.seal("whsec_x", "secret:1") != sealed
    for other, place, text in (
        (Safe(b"b" * 32), "secret:1", sealed),
        (safe, "secret:2", sealed),
        (safe, "secret:1", "x"),
    ):
        with pytest.raises(Unreadable):
            other.open(text, place)


def test_a_secret_that_cannot_be_read_is_said_and_stops_nobody_else(post: Post) -> None:
    one, other = post.subscribe(), post.subscribe(url="https://other.example/")
    with post.db.write(post.clock.now) as tx:
        tx.execute("UPDATE subscription_secret SET sealed = 'x' WHERE subscription_id = ?", (one,))
    post.happen("node-a")
    post.go()

    assert "its secret cannot be read" in post.show(one)["error"]
    assert post.show(other)["delivered"] == 1


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_no_two_secrets_are_alike_and_none_is_shown_by_accident(algorithm: Algorithm) -> None:
    one, two = make_secret(algorithm), make_secret(algorithm)

    assert one.kept != two.kept
    assert one.kept not in repr(one)
    assert len(base64.b64decode(one.kept.partition("_")[2])) == 32
