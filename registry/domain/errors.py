# SPDX-License-Identifier: Apache-2.0
"""Which facts can go wrong? Each has a stable code that scripts branch on and a sentence a person can act on.

`api/errors.py` maps each class to an HTTP status; nothing here knows of HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field: `pointer` is a JSON Pointer into the message."""

    pointer: str
    detail: str


class PratiqueError(Exception):
    """A fact that stops a use case. `detail` is for people, `errors` names fields, `extra` joins the document."""

    code: ClassVar[str] = "invalid_field"

    def __init__(self, detail: str, *, errors: tuple[FieldError, ...] = (), **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.extra = extra


class Unauthenticated(PratiqueError):
    """No token, or one that is unknown or revoked."""

    code = "unauthenticated"


class Forbidden(PratiqueError):
    """The token is good, but not for this."""

    code = "forbidden"


class NotFound(PratiqueError):
    """There is no record under this name."""

    code = "not_found"


class MalformedBody(PratiqueError):
    """The body is not what its content type says."""

    code = "malformed_body"


class InvalidField(PratiqueError):
    """A field has a value that cannot be accepted."""

    code = "invalid_field"


class BodyTooLarge(PratiqueError):
    """The body is over the limit."""

    code = "body_too_large"


class LengthRequired(PratiqueError):
    """A body came without a length."""

    code = "length_required"


class RateLimited(PratiqueError):
    """Too many requests with one token."""

    code = "rate_limited"


class CoversRequired(PratiqueError):
    """A list without `covers` lacks a kind that the profile expects."""

    code = "covers_required"


class SlotRepeated(PratiqueError):
    """One slot stands twice in a list with equal or no UUID."""

    code = "slot_repeated"


class PartUnreadable(PratiqueError):
    """Tool output that cannot be read whole. It is never read as "devices are gone"."""

    code = "part_unreadable"


class ReportIdReused(PratiqueError):
    """A report id came again with another body."""

    code = "report_id_reused"


class IdempotencyKeyReused(PratiqueError):
    """An idempotency key came again with another body."""

    code = "idempotency_key_reused"


class IdempotencyInProgress(PratiqueError):
    """The first request with this idempotency key is still running."""

    code = "idempotency_in_progress"


class InstanceSuperseded(PratiqueError):
    """An instance older than the node's newest reports again."""

    code = "instance_superseded"


class AlreadyJoined(PratiqueError):
    """The instance has a token from an earlier trade; `token_id` says which."""

    code = "already_joined"


class DeviceAmbiguous(PratiqueError):
    """A reference fits several units; `extra["candidates"]` lists them."""

    code = "device_ambiguous"


class NotOpen(PratiqueError):
    """The quarantine, conflict, failure or repair is no longer open, or the token is revoked already.

    Of a repair also: somebody else has it, or it must not begin now.
    """

    code = "not_open"


class StoreUnavailable(PratiqueError):
    """The database cannot answer. Every caller treats this as "not admitted"."""

    code = "store_unavailable"


PROBLEM_CODES: tuple[str, ...] = (
    "unauthenticated",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "malformed_body",
    "invalid_field",
    "body_too_large",
    "length_required",
    "rate_limited",
    "covers_required",
    "slot_repeated",
    "part_unreadable",
    "report_id_reused",
    "idempotency_key_reused",
    "idempotency_in_progress",
    "instance_superseded",
    "already_joined",
    "device_ambiguous",
    "not_open",
    "store_unavailable",
    "internal",
)
"""Every `code` a problem document can carry, as `design` lists them, and `internal` for what nobody foresaw."""
