"""Sends requests: the token, errors, and repetitions.

A request is repeated if the service refused it for now (429, and 503 with `Retry-After`), because
it then has changed nothing. After a lost connection, a request is repeated if it reads, or if it
has an idempotency key.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode


class ApiError(Exception):
    """The service refused a request."""

    def __init__(self, status: int, code: str, text: str, headers: Mapping[str, str]) -> None:
        super().__init__(text)
        #: The HTTP status.
        self.status = status
        #: The stable code of the error, or an empty text.
        self.code = code
        #: The headers of the response.
        self.headers = headers


class NetworkError(Exception):
    """The service cannot be reached, or the connection was interrupted."""


@dataclass
class Call:
    """A request of a generated operation."""

    method: str
    #: The path with the names of its segments.
    template: str
    #: How the body of the response is read: `json`, `text`, `bytes` or `nothing`.
    form: str
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    media: str | None = None
    #: Whether the operation accepts an idempotency key.
    once: bool = False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects, so that the token is sent only to the service."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class Transport:
    """Sends requests to one service."""

    def __init__(
        self, base_url: str, token: str | None, retries: int, max_wait: float, timeout: float
    ) -> None:
        self._base = base_url.rstrip("/")
        if not self._base.startswith(("http://", "https://")):
            raise ValueError("base_url must begin with http:// or https://")
        self._token = token
        self._retries = retries
        self._max_wait = max_wait
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirects)

    def call(self, call: Call) -> Any:
        """Sends a request and returns the body of the response in the form of the call."""
        with self.open(call) as response:
            try:
                body = response.read()
            except (OSError, HTTPException) as error:
                raise NetworkError("the response was interrupted") from error
        if call.form == "json":
            return json.loads(body)
        if call.form == "text":
            return body.decode()
        return body if call.form == "bytes" else None

    def open(self, call: Call) -> HTTPResponse:
        """Sends a request and returns the successful response."""
        request = self._request(call)
        repeatable = call.method == "GET" or request.has_header("Idempotency-key")
        attempt = 0
        while True:
            left = attempt < self._retries
            try:
                response: HTTPResponse = self._opener.open(request, timeout=self._timeout)
                return response
            except urllib.error.HTTPError as error:
                with error:
                    wait = _retry_after(error.code, error.headers) if left else None
                    if wait is None or wait > self._max_wait:
                        raise _refusal(error) from None
            except (OSError, HTTPException) as error:
                if not repeatable or not left:
                    raise NetworkError(f"the service cannot be reached: {error}") from error
                wait = 2.0**attempt
            time.sleep(wait)
            attempt += 1

    def _request(self, call: Call) -> urllib.request.Request:
        path = call.template
        for name, value in call.path.items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        pairs = []
        for name, value in call.query.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            pairs += [(name, _text(each)) for each in values if each is not None]
        url = self._base + path + (f"?{urlencode(pairs)}" if pairs else "")
        data = None
        if call.body is not None:
            # A file can have the media type of JSON too.
            is_file = call.media != "application/json" or isinstance(call.body, bytes)
            data = call.body if is_file else json.dumps(call.body).encode()
        request = urllib.request.Request(url, data=data, method=call.method)
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        if data is not None and call.media is not None:
            request.add_header("Content-Type", call.media)
        for name, value in call.header.items():
            if value is not None:
                request.add_header(name, _text(value))
        if call.once and not request.has_header("Idempotency-key"):
            request.add_header("Idempotency-Key", str(uuid.uuid4()))
        return request


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _retry_after(status: int, headers: Message) -> float | None:
    """The seconds after which a refused request can be repeated."""
    if status not in (429, 503):
        return None
    try:
        return max(float(headers.get("Retry-After", "")), 0.1)
    except ValueError:
        return None


def _refusal(error: urllib.error.HTTPError) -> ApiError:
    try:
        body = json.loads(error.read())
    except (OSError, HTTPException, ValueError):
        body = {}
    body = body if isinstance(body, dict) else {}
    text, code = body.get("error"), body.get("code")
    text = text if isinstance(text, str) else f"the status {error.code}"
    code = code if isinstance(code, str) else ""
    return ApiError(error.code, code, text, dict(error.headers.items()))
