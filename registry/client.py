# SPDX-License-Identifier: Apache-2.0
"""How is a Pratique server asked? With a time limit, with repeats where they do no harm, and with typed errors.

A request is repeated only where a second arrival changes nothing: reads, PUT and DELETE, reports (their `report_id`
makes them idempotent) and every POST, because each is sent with an Idempotency-Key.
"""

from __future__ import annotations

import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from math import inf
from typing import Any, BinaryIO
from urllib.parse import quote

import requests
from requests.auth import AuthBase

from registry.connections import FAULTS, Adapter, Lines
from registry.domain.errors import PROBLEM_CODES, FieldError

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


ANSWER_SECONDS = 60.0
"""Most seconds of one try from its beginning to the last byte of its answer: a server that sends a byte a second is
never silent for READ_TIMEOUT."""

LEAST_SECONDS = 5.0
"""What one try gets also when the time of all is nearly over: an answer of a healthy server needs less."""

TICK_SECONDS = 0.1
"""How often it is looked whether a try shall be given up."""

MEDIA_TYPE = "application/problem+json"

_SECONDS = re.compile(r"[0-9]{1,9}")


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
        listed = self.body.get("errors")
        named = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return tuple(FieldError(str(one.get("pointer", "")), str(one.get("detail", ""))) for one in named)


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

    One try takes `answer_seconds` at most, its answer included, however slowly it comes. `until` is when the last try
    of a request must have ended, on the monotonic clock; `is_stopping` ends a try at once.
    """

    url: str
    token: str
    timeout: tuple[float, float] = (CONNECT_TIMEOUT, READ_TIMEOUT)
    retries: int = 3
    ca_file: str | None = None
    sleep: Callable[[float], None] = time.sleep
    answer_seconds: float = ANSWER_SECONDS
    until: float | None = None
    is_stopping: Callable[[], bool] = lambda: False
    _session: requests.Session = field(init=False, repr=False)
    _lines: Lines = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = self.ca_file or True
        self._session.headers["Accept"] = "application/json"
        self._lines = Lines()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, Adapter(self._lines))

    def admission(self, node: str) -> dict[str, Any]:
        """May this node take work now? The decision as the server made it. Raises ClientError."""
        decision = self.get("nodes", node, "admission")
        if not is_decision(decision):
            raise ServerUnreachable(f"{self.url} answered with something that is no decision")
        return decision

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
        if parts:
            files = {name: (name, content, "application/octet-stream") for name, content in parts.items()}
            answer = self._document(self._send("POST", ("nodes", node, "reports"), data=fields, files=files))
        else:
            answer = self._document(self._send("POST", ("nodes", node, "reports"), json=message))
        sent = message.get("report_id") or (fields or {}).get("report_id")
        # Many things on a way answer 200 with JSON: taken is what a server names and decides upon.
        if answer.get("report_id") != sent or not is_decision(answer.get("admission")):
            raise ServerUnreachable(f"{self.url} answered, and not to the report that it was sent")
        return answer

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

    def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change a part of the record at `/v1/<path>`. Raises ClientError."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._document(self._send("PATCH", path, json=body, headers=headers))

    def delete(self, *path: str) -> None:
        """Take the record at `/v1/<path>` away. Raises ClientError."""
        self._send("DELETE", path, headers={"Idempotency-Key": uuid.uuid4().hex})

    def items(self, *path: str, params: Mapping[str, str] | None = None, limit: int = 0) -> Iterator[dict[str, Any]]:
        """Walk a list page by page; `limit` 0 means to its end. Raises ClientError."""
        asked = dict(params or {})
        left = limit or None
        while True:
            size = PAGE_LIMIT if left is None else min(left, PAGE_LIMIT)
            page = self.get(*path, params={**asked, "limit": str(size)})
            if not isinstance(page.get("items"), list) or "next" not in page:
                raise ServerUnreachable(f"{self.url} answered with something that is no page of a list")
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

    def download(self, *path: str, into: BinaryIO) -> int:
        """Write what stands at `/v1/<path>` to a file as it came, in flat memory; return its bytes. Raises ClientError.

        A server that breaks off in the middle is told: what it sends in pieces says where it ends.
        """
        response = self._send("GET", path, headers={"Accept": "*/*"}, stream=True)
        try:
            return sum(into.write(chunk) for chunk in response.iter_content(STREAM_BYTES))
        except requests.RequestException as error:
            raise ServerUnreachable(f"the answer of {self.url} broke off: {_reason(error)}") from error
        finally:
            response.close()

    def _send(self, method: str, path: Sequence[str], **options: Any) -> requests.Response:
        """Send until there is an answer that another try would not better, or the tries are used up."""
        address = "/".join((self.url, "v1", *(quote(part, safe="") for part in path)))
        try:
            request = self._session.prepare_request(self._request(method, address, options))
        except (requests.RequestException, UnicodeError) as error:
            raise ServerUnreachable(f"{self.url} is no address that can be asked") from error
        until = inf if self.until is None else max(self.until, time.monotonic() + LEAST_SECONDS)
        for attempt in range(self.retries + 1):
            try:
                response = self._try(request, until, is_stream="stream" in options)
            except FAULTS as error:
                pause = pause_before(attempt)
                may_pass = isinstance(error, (requests.ConnectionError, requests.Timeout))
                if attempt == self.retries or not may_pass or time.monotonic() + pause >= until:
                    raise ServerUnreachable(f"no answer from {self.url}: {_reason(error)}") from error
                self.sleep(pause)
                continue
            pause = pause_before(attempt, _retry_after(response))
            is_last = attempt == self.retries or time.monotonic() + pause >= until
            if response.ok or is_last or not _is_passing(response):
                return self._checked(response)
            self.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _try(self, request: requests.PreparedRequest, until: float, *, is_stream: bool) -> requests.Response:
        """Send once, and have the whole answer in time. Raises what requests does, requests.Timeout for a slow one.

        It is waited for beside, because a byte now and then keeps every time limit of a socket from being reached.
        """
        done: Future[requests.Response] = Future()

        def work() -> None:
            try:
                send = self._session.send
                done.set_result(send(request, timeout=self.timeout, stream=is_stream, allow_redirects=False))
            except FAULTS as error:
                done.set_exception(error)

        end = min(time.monotonic() + self.answer_seconds, until)
        threading.Thread(target=work, daemon=True).start()
        while (left := end - time.monotonic()) > 0:
            if self.is_stopping():
                break
            if wait([done], min(left, TICK_SECONDS)).done:
                return done.result()
        self._lines.cut()
        raise requests.Timeout("the agent is stopping" if left > 0 else "timed out")

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
        error.retry_after = _retry_after(response)
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
        except (ValueError, RecursionError) as error:
            raise ServerUnreachable(f"{self.url} answered with something that is no JSON") from error
        if not isinstance(document, dict):
            raise ServerUnreachable(f"{self.url} answered with JSON that is no object")
        return document


def pause_before(attempt: int, retry_after: float | None = None) -> float:
    """Seconds to wait after try `attempt` (from 0) failed: half a second doubled each time, half of it by chance.

    Chance keeps a fleet that lost its server at one moment from coming back at one moment. A server's Retry-After in
    seconds is a lower bound.
    """
    pause: float = 0.5 * 2**attempt * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
    return min(max(pause, retry_after or 0.0), PAUSE_MAX)


def is_decision(document: object) -> bool:
    """Has it what a decision has? Something on the way may answer with JSON of its own."""
    if not isinstance(document, dict):
        return False
    texts, reasons = (document.get("node"), document.get("disposition")), document.get("reasons")
    is_reasoned = isinstance(reasons, list) and all(isinstance(one, dict) and "code" in one for one in reasons)
    return isinstance(document.get("admitted"), bool) and all(isinstance(one, str) for one in texts) and is_reasoned


def _is_passing(response: requests.Response) -> bool:
    """Another try may be answered otherwise: the server restarts, or still works on the first arrival of this key."""
    if response.status_code in PASSING_STATUSES:
        return True
    problem = _problem_of(response) if response.status_code == 409 else None
    return problem is not None and problem["code"] == "idempotency_in_progress"


def _problem_of(response: requests.Response) -> dict[str, Any] | None:
    """Read what went wrong, if it is a Pratique server that says so: proxies and gateways write JSON of their own."""
    if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        return None
    try:
        document = response.json()
    except (ValueError, RecursionError, requests.RequestException):
        return None
    return document if isinstance(document, dict) and document.get("code") in PROBLEM_CODES else None


def _retry_after(response: requests.Response) -> float | None:
    """Give the seconds that a Pratique server asks to wait; what a proxy asks for is not about this service."""
    asked = response.headers.get("Retry-After", "")
    return float(asked) if _SECONDS.fullmatch(asked) and _problem_of(response) is not None else None


def _reason(error: BaseException) -> str:
    """Say in one line what went wrong below HTTP, without the names of Python classes where there is a plain word."""
    if isinstance(error, requests.Timeout):
        return "the agent is stopping" if error.args == ("the agent is stopping",) else "timed out"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        inner = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
        nested = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        cause = inner if isinstance(inner, BaseException) else nested
    return str(error)
