# SPDX-License-Identifier: Apache-2.0
"""Which kinds of arguments do the commands take beyond click's own? Durations, times and JSON documents."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import click

from registry.domain.times import parse_duration, parse_rfc3339


class Duration(click.ParamType[timedelta]):
    """A length of time: `90s`, `15m`, `1h30m`, or a bare number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read the text, or end with a usage error."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is {error}", param, ctx)


class Moment(click.ParamType[str]):
    """A time with its offset, as RFC 3339 has it: `2026-01-31T12:00:00Z`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text and hand it on as it is, or end with a usage error."""
        try:
            parse_rfc3339(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is {error}", param, ctx)
        return str(value)


class Document(click.ParamType[Any]):
    """A file that holds JSON; `-` reads standard input."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the file, or end with a usage error."""
        if not isinstance(value, str):
            return value
        try:
            with click.open_file(value, "rb") as stream:
                found = json.load(stream)
                json.dumps(found, allow_nan=False)  # what is too large for a number is read as infinity
                return found
        except OSError as error:
            self.fail(f"cannot read {value}: {error.strerror}", param, ctx)
        except ValueError as error:
            self.fail(f"{value} holds no JSON: {error}", param, ctx)


def given(**fields: Any) -> dict[str, Any]:
    """Make a body of the fields that were given. None, False and what is empty are left to the server; 0 is a value."""
    return {name: value for name, value in fields.items() if value or (value == 0 and value is not False)}


def paired(value: str, separator: str, form: str) -> tuple[str, str]:
    """Split `NAME=VALUE` and the like. Raises click.BadParameter, naming the form."""
    name, found, rest = value.partition(separator)
    if not (name and found and rest):
        raise click.BadParameter(f"{value!r} has not the form {form}")
    return name, rest
