# SPDX-License-Identifier: Apache-2.0
"""How is a Pratique server asked? With a time limit, with repeats where they do no harm, and with typed errors.

A request is repeated only where a second arrival changes nothing: reads, PUT and DELETE, reports (their `report_id`
makes them idempotent) and every POST, because each is sent with an Idempotency-Key.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import requests
from requests.auth import AuthBase

from registry.domain.errors import FieldError

CONNECT_TIMEOUT = 3.05
"""Seconds to wait for a connection: a little over 3, the first repeat of a lost TCP SYN (RFC 6298, 2.1 and 5.5)."""

READ_TIMEOUT = 30.0
"""Seconds without a byte before an answer is given up; the server cuts its own workers off at the same age."""

PAUSE_MAX = 30.0
"""Longest pause between two tries, also when a server asks for more: the caller has a deadline of its own."""

PASSING_STATUSES = frozenset({429, 502, 503, 504})
"""Answers that another try may better: too many requests, and a server or proxy that is just restarting."""

STREAM_BYTES = 64 * 1024
"""How much of a stream is taken at once; requests' own 512 bytes make a large export slow."""

PAGE_LIMIT = 1000
"""Most items the server gives in one page."""


class ClientError(Exception):
    """No usable answer. `detail` is a sentence for a person, `retry_after` the seconds that the server asks to wait."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after: float | None = None


class ServerUnreachable(ClientError):
    """Nobody answered, or something that is no Pratique server did. It says nothing about any node."""


class ProblemAnswer(ClientError):
    """The server said no: `code` is one of the problem codes, `body` the whole problem document."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("detail") or body.get("title") or f"HTTP status {status}"))
        self.status = status
        self.body = body
        self.code = str(body["code"])

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """What is wrong with which field."""
        listed = self.body.get("errors") or ()
        return tuple(FieldError(str(one.get("pointer", "")), str(one.get("detail", ""))) for one in listed)


class NotAuthorised(ProblemAnswer):
    """The token is missing, unknown, revoked, or not good for this."""


@dataclass(frozen=True, slots=True)
class _Bearer(AuthBase):
    """Sets the token. As an `auth` it also keeps requests from reading another password out of a .netrc file."""

    token: str

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


@dataclass(slots=True)
class Client:
    """A connection to one server, with one token. Not for several threads at once.

    Proxy variables of the environment are not looked at: on a node they lead to the internet, and a token must not
    go there. `ca_file` names the certificates to trust instead of the usual ones.
    """

    url: str
    token: str
    timeout: tuple[float, float] = (CONNECT_TIMEOUT, READ_TIMEOUT)
    retries: int = 3
    ca_file: str | None = None
    sleep: Callable[[float], None] = time.sleep
    _session: requests.Session = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = self.ca_file or True
        self._session.headers["Accept"] = "application/json"

    def admission(self, node: str) -> dict[str, Any]:
        """May this node take work now? The decision as the server made it. Raises ClientError."""
        return self.get("nodes", node, "admission")

    def report(
        self,
        node: str,
        message: Mapping[str, Any],
        parts: Mapping[str, bytes] | None = None,
        *,
        fields: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send what a node says: `message` as JSON, or `parts` of raw tool output with `fields` beside them.

        `message` must hold a `report_id`, so that a repeat is known as one. Raises ClientError.
        """
        if not parts:
            return self._document(self._send("POST", ("nodes", node, "reports"), json=message))
        files = {name: (name, content, "application/octet-stream") for name, content in parts.items()}
        return self._document(self._send("POST", ("nodes", node, "reports"), data=fields, files=files))

    def get(self, *path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Read `/v1/<path>`; every part of the path is quoted. Raises ClientError."""
        return self._document(self._send("GET", path, params=params))

    def post(self, *path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Do something once, however often the request has to be sent. Raises ClientError."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._document(self._send("POST", path, json=body, params=params, headers=headers))

    def put(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Write the record at `/v1/<path>`. Raises ClientError."""
        return self._document(self._send("PUT", path, json=body))

    def items(self, *path: str, params: Mapping[str, str] | None = None, limit: int = 0) -> Iterator[dict[str, Any]]:
        """Walk a list page by page; `limit` 0 means to its end. Raises ClientError."""
        asked = dict(params or {})
        left = limit or None
        while True:
            size = PAGE_LIMIT if left is None else min(left, PAGE_LIMIT)
            page = self.get(*path, params={**asked, "limit": str(size)})
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            if page["next"] is None or left == 0:
                return
            asked["cursor"] = page["next"]

    def lines(
        self, *path: str, params: Mapping[str, str] | None = None, accept: str = "application/x-ndjson"
    ) -> Iterator[str]:
        """Read a stream line by line in flat memory. Raises ClientError, also when it breaks off."""
        # Errors come as problem documents whatever is asked for.
        response = self._send("GET", path, params=params, headers={"Accept": accept}, stream=True)
        try:
            rest = b""
            for chunk in response.iter_content(STREAM_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line.decode() for line in whole)
            if rest:
                yield rest.decode()
        except requests.RequestException as error:
            raise ServerUnreachable(f"the answer of {self.url} broke off: {_reason(error)}") from error
        finally:
            response.close()

    def _send(self, method: str, path: Sequence[str], **options: Any) -> requests.Response:
        """Send until there is an answer that another try would not better, or the tries are used up."""
        address = "/".join((self.url, "v1", *(quote(part, safe="") for part in path)))
        request = self._session.prepare_request(self._request(method, address, options))
        for attempt in range(self.retries + 1):
            is_last = attempt == self.retries
            try:
                response = self._session.send(
                    request, timeout=self.timeout, stream="stream" in options, allow_redirects=False
                )
            except requests.RequestException as error:
                if is_last or not isinstance(error, (requests.ConnectionError, requests.Timeout)):
                    raise ServerUnreachable(f"no answer from {self.url}: {_reason(error)}") from error
                self.sleep(pause_before(attempt))
                continue
            if response.ok or is_last or not _is_passing(response):
                return self._checked(response)
            self.sleep(pause_before(attempt, response.headers.get("Retry-After")))
        raise AssertionError("the last try returns or raises")

    def _request(self, method: str, address: str, options: Mapping[str, Any]) -> requests.Request:
        known = {
            name: options[name]
            for name in ("json", "data", "files", "params", "headers")
            if options.get(name) is not None
        }
        return requests.Request(method, address, auth=_Bearer(self.token), **known)

    def _checked(self, response: requests.Response) -> requests.Response:
        """Give an answer of 2xx back. Raises the ClientError that fits any other."""
        if response.ok and not response.is_redirect:
            return response
        error = self._error_of(response)
        asked = response.headers.get("Retry-After", "")
        error.retry_after = float(asked) if asked.isdigit() else None
        raise error

    def _error_of(self, response: requests.Response) -> ClientError:
        problem = _problem_of(response)
        if problem is None:
            return ServerUnreachable(f"{self.url} answered {response.status_code} in a way no Pratique server does")
        if response.status_code in {401, 403}:
            return NotAuthorised(response.status_code, problem)
        return ProblemAnswer(response.status_code, problem)

    def _document(self, response: requests.Response) -> dict[str, Any]:
        try:
            document = response.json()
        except requests.JSONDecodeError as error:
            raise ServerUnreachable(f"{self.url} answered with something that is no JSON") from error
        if not isinstance(document, dict):
            raise ServerUnreachable(f"{self.url} answered with JSON that is no object")
        return document


def pause_before(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait after try `attempt` (from 0) failed: half a second doubled each time, half of it by chance.

    Chance keeps a fleet that lost its server at one moment from coming back at one moment. A server's Retry-After in
    seconds is a lower bound.
    """
    pause: float = 0.5 * 2**attempt * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
    if retry_after and retry_after.isdigit():
        pause = max(pause, float(retry_after))
    return min(pause, PAUSE_MAX)


def _is_passing(response: requests.Response) -> bool:
    """Another try may be answered otherwise: the server restarts, or still works on the first arrival of this key."""
    if response.status_code in PASSING_STATUSES:
        return True
    problem = _problem_of(response) if response.status_code == 409 else None
    return problem is not None and problem["code"] == "idempotency_in_progress"


def _problem_of(response: requests.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except requests.RequestException:
        return None
    return document if isinstance(document, dict) and "code" in document else None


def _reason(error: requests.RequestException) -> str:
    """Say in one line what went wrong below HTTP, without the names of Python classes where there is a plain word."""
    if isinstance(error, requests.Timeout):
        return "timed out"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        inner = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
        nested = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        cause = inner if isinstance(inner, BaseException) else nested
    return str(error)
