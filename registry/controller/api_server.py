# SPDX-License-Identifier: Apache-2.0
"""How is the API server of a cluster asked? In plain REST, with a time limit and with errors that say what to do next.

The conventions: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

CONNECT_SECONDS = 2.0
READ_SECONDS = 3.0
"""Together they are less than what is left of a lease when its holder stops acting, so that no late write of one that
has lost it meets the next holder's."""

LIST_SECONDS = 30.0
"""Seconds without a byte of a list: nothing is written by it, and a busy server looks for it in etcd."""

WATCH_SILENCE_SECONDS = 90.0
"""Seconds without a byte after which a watch counts as lost. Bookmarks come about once a minute
(https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks); a quiet server loses nothing by being
asked again."""

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


_SECONDS = re.compile(r"[0-9]{1,5}")


class ApiError(Exception):
    """The API server did not do it. `status` is 0 where nobody answered, `retry_after` the seconds it asks to wait."""

    def __init__(self, detail: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.retry_after = retry_after

    @property
    def is_refusal(self) -> bool:
        """Did it say no to this very request? Then it may well do another."""
        return 400 <= self.status < 500 and self.status != 429


class Missing(ApiError):
    """There is no such object (any more)."""


class Conflict(ApiError):
    """The object is not what it was when it was read, or is there already."""


class Gone(ApiError):
    """What was asked for is too old: read everything again."""


_BY_STATUS: Mapping[int, type[ApiError]] = {404: Missing, 409: Conflict, 410: Gone}


@dataclass(frozen=True, slots=True)
class _Bearer(AuthBase):
    """Sets the token of the file at each request: a kubelet renews it there before it runs out.

    https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#launch-a-pod-using-service-account-token-projection
    """

    file: Path | None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Raises OSError, or ValueError for a file that holds no token: what stands in it is told to nobody."""
        if self.file is not None:
            token = self.file.read_bytes().strip()
            if not token.isascii() or not token.decode("ascii").isprintable() or len(token.split()) != 1:
                raise ValueError(f"{self.file} must hold one token and nothing else")
            request.headers["Authorization"] = f"Bearer {token.decode('ascii')}"
        return request


@dataclass(slots=True)
class ApiServer:
    """One API server, asked with the token of a file. May be shared by threads: each has a session of its own."""

    url: str
    token_file: Path | None = None
    ca_file: str | None = None
    timeout: tuple[float, float] = (CONNECT_SECONDS, READ_SECONDS)
    watch_silence: float = WATCH_SILENCE_SECONDS
    _own: threading.local = field(default_factory=threading.local, init=False, repr=False)

    def get(self, path: str) -> dict[str, Any]:
        """Read an object. Raises ApiError."""
        return self._document(self._send("GET", path))

    def list(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        """Read a page of a list, which takes longer. Raises ApiError, Gone."""
        return self._document(self._send("GET", path, params=params, timeout=(self.timeout[0], LIST_SECONDS)))

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make an object. Raises ApiError, Conflict where it is there already."""
        return self._document(self._send("POST", path, body=body))

    def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Write an object whole; with its `resourceVersion`, only over that version. Raises ApiError, Conflict."""
        return self._document(self._send("PUT", path, body=body))

    def patch(self, path: str, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
        """Change an object; with `resourceVersion` or `uid` in it, only that one. Raises ApiError, Conflict."""
        return self._document(self._send("PATCH", path, body=body, content_type=kind))

    def watch(self, path: str, params: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Give the events of a watch until the server ends it. Raises ApiError, Gone."""
        timeout = (self.timeout[0], self.watch_silence)
        answer = self._send("GET", path, params={**params, "watch": "true"}, stream=True, timeout=timeout)
        with closing(answer):
            try:
                for line in answer.iter_lines(chunk_size=None):
                    if line:
                        yield _event(line)
            except (requests.RequestException, HTTPError, OSError) as error:
                raise ApiError(f"the watch broke off: {_words(error)}") from error

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        stream: bool = False,
        timeout: tuple[float, float] | None = None,
    ) -> requests.Response:
        headers = {"Content-Type": content_type} if body is not None else {}
        try:
            answer = self._session().request(
                method,
                self.url.rstrip("/") + path,
                params=params,
                data=json.dumps(body).encode() if body is not None else None,
                headers=headers,
                timeout=timeout or self.timeout,
                stream=stream,
                allow_redirects=False,
            )
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise ApiError(f"no answer from the API server: {_words(error)}") from error
        if answer.status_code in range(200, 300):
            return answer
        with closing(answer):
            raise _error_of(answer.status_code, _status_in(answer), _retry_after(answer))

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._own, "session", None)
        if session is None:
            session = self._own.session = requests.Session()
            session.trust_env = False  # a proxy of the environment must not see the token
            session.auth = _Bearer(self.token_file)
            session.verify = self.ca_file or True
            session.headers["Accept"] = "application/json"
            session.headers["User-Agent"] = "pratique-controller"
        return session

    @staticmethod
    def _document(answer: requests.Response) -> dict[str, Any]:
        try:
            document = answer.json()
        except (ValueError, RecursionError) as error:
            raise ApiError("the API server answered with something that is no JSON") from error
        if not isinstance(document, dict):
            raise ApiError("the API server answered with JSON that is no object")
        return document


def _event(line: bytes) -> dict[str, Any]:
    """Read one line of a watch. Raises ApiError for what is none, and for the error that it tells of."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ApiError("a line of the watch is no JSON") from error
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise ApiError("a line of the watch is no event")
    if event.get("type") == "ERROR":
        code = event["object"].get("code")
        raise _error_of(code if isinstance(code, int) else 0, event["object"])
    return event


def _error_of(status: int, said: Mapping[str, Any], retry_after: float | None = None) -> ApiError:
    message = str(said.get("message") or f"HTTP status {status}")
    return _BY_STATUS.get(status, ApiError)(message, status, retry_after)


def _retry_after(answer: requests.Response) -> float | None:
    """Read how long the server, or a proxy before it, asks to be left alone; only seconds are used for that."""
    asked = answer.headers.get("Retry-After", "")
    return float(asked) if _SECONDS.fullmatch(asked) else None


def _status_in(answer: requests.Response) -> Mapping[str, Any]:
    """Read the `Status` object of an error; a proxy on the way sends none."""
    try:
        document = answer.json()
    except (ValueError, RecursionError, requests.RequestException):
        return {}
    return document if isinstance(document, dict) else {}


def _words(error: BaseException) -> str:
    """Say in one line what went wrong below HTTP."""
    if isinstance(error, requests.Timeout):
        return "timed out"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
        inner = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
        nested = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        cause = inner if isinstance(inner, BaseException) else nested
    return str(error)
