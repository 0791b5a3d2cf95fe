# SPDX-License-Identifier: Apache-2.0
"""What did a person fill in? Each field is read by name, and what is wrong with it is said beside it."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import g, request

from api.context import now
from api.text import ID_LENGTH, TEXT_LENGTH, why_not_text
from registry.domain.errors import FieldError, InvalidField, PratiqueError

FORM = "form"
"""The hidden field with the key of a form, which tells it from the others of its page."""

FIELDS_MAX = 1000
"""Most boxes that one form may have ticked, as many as the API takes targets at once."""


SPOKEN = {"retyped": "what was typed again", "as": "the way to resolve it"}
"""How fields are called to people whose own name says nothing to them."""


def field(name: str, *, most: int = ID_LENGTH, is_prose: bool = False) -> str:
    """Read a field that must be filled in, without blanks around it. Raises InvalidField naming it."""
    found = optional(name, most=most, is_prose=is_prose)
    if found is None:
        raise refuse(name, "is empty: fill it in")
    return found


def optional(name: str, *, most: int = ID_LENGTH, is_prose: bool = False) -> str | None:
    """Read a field that may be left empty: None then. Raises InvalidField naming it."""
    # A browser ends each line of a text with CR LF: https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data
    given = request.form.get(name, "").replace("\r\n", "\n").strip()
    reason = why_not_text(given, most, is_prose=is_prose)
    if reason is not None:
        raise refuse(name, reason)
    return given or None


def prose(name: str = "reason") -> str:
    """Read what a person wrote, in lines if they like: by default the reason of an act. Raises InvalidField."""
    return field(name, most=TEXT_LENGTH, is_prose=True)


def choice(name: str, words: tuple[str, ...]) -> str:
    """Read one of few words. Raises InvalidField naming the field and the words."""
    given = field(name)
    if given not in words:
        raise refuse(name, f"must be {' or '.join(words)}")
    return given


def moment(name: str) -> datetime | None:
    """Read a date, or a date and a time, as UTC; None when it is left empty. Raises InvalidField naming it."""
    given = optional(name)
    if given is None:
        return None
    try:
        read = datetime.fromisoformat(given)
    except ValueError:
        raise refuse(name, "must be a date and a time in UTC, like 2026-01-31T12:00") from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def later(name: str) -> datetime | None:
    """Read a moment that is still to come; None when it is left empty. Raises InvalidField naming it."""
    given = moment(name)
    if given is not None and given <= now():
        raise refuse(name, "is over already")
    return given


def flag(name: str) -> bool:
    """Read a box: whether it is ticked."""
    return name in request.form


def ticked(name: str) -> tuple[str, ...]:
    """Read all boxes of one name that are ticked. Raises InvalidField for none, and for more than the API takes."""
    given = tuple(dict.fromkeys(request.form.getlist(name)))
    if not given:
        raise refuse(name, "is empty: tick at least one line")
    if len(given) > FIELDS_MAX:
        raise refuse(name, f"has {len(given)} lines ticked; at most {FIELDS_MAX} are taken at once")
    if reason := next((why for one in given if (why := why_not_text(one, ID_LENGTH))), None):
        raise refuse(name, reason)
    return given


def retyped(expected: str, name: str = "retyped") -> None:
    """Make sure that a person means this very thing: its mark was typed again. Raises InvalidField."""
    given = field(name)
    if given != expected:
        raise refuse(name, f"is not {expected}: type it as it stands on the page, to show that you mean this one")


def refuse(name: str, detail: str) -> InvalidField:
    """Make the error that says what is wrong with one field."""
    return InvalidField(
        f"{SPOKEN.get(name, name).replace('_', ' ')} {detail}", errors=(FieldError(f"/{name}", detail),)
    )


def given(name: str, default: object = "", key: str = "") -> str:
    """Return what was filled in before it was refused, so that nobody has to type it again; else the default.

    `key` is that of the form, where a page has several.
    """
    if _refused(key) is not None and name in request.form:
        return request.form[name]
    return "" if default is None else str(default)


def complaint(name: str, key: str = "") -> str | None:
    """Return what is wrong with a field of the form that was refused."""
    refused = _refused(key)
    found = (error.detail for error in refused.errors if error.pointer == f"/{name}") if refused else iter(())
    return next(found, None)


def is_refused(*keys: str) -> bool:
    """Tell whether the form of one of these keys was refused: then the page shows it, and not folded away."""
    return g.get("problem") is not None and request.form.get(FORM) in keys


def _refused(key: str) -> PratiqueError | None:
    """Why the form of this key was refused; a form that says no key of its own is taken for any."""
    refused: PratiqueError | None = g.get("problem")
    return refused if request.form.get(FORM, key) == key else None
