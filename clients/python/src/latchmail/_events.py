"""The stream of events of a mailbox (`text/event-stream`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any, TypedDict

from ._transport import ApiError, Call, NetworkError, Transport

#: The longest wait before another connection, in seconds.
MAX_WAIT = 30


class Event(TypedDict):
    """An event of a mailbox."""

    id: str
    type: str
    time: str
    data: dict[str, Any]


def stream_events(
    transport: Transport, folder: str | None, types: list[str] | None, since: str | None
) -> Iterator[Event]:
    """Yields events, and connects again after an interruption."""
    cursor, failures = since, 0
    while True:
        header = {"Last-Event-ID": cursor, "Accept": "text/event-stream"}
        query = {"folder": folder, "types": ",".join(types) if types else None}
        call = Call("GET", "/api/v1/mail/events", "nothing", query=query, header=header)
        try:
            with transport.open(call) as response:
                for identifier, kind, data in _blocks(response):
                    failures = 0
                    if kind == "end":
                        reason = json.loads(data or "{}").get("reason", "")
                        if reason == "shutdown":
                            break
                        text = f"the stream has ended: {reason}"
                        raise ApiError(response.status, reason, text, dict(response.headers.items()))
                    if kind:
                        yield json.loads(data)
                    cursor = identifier or cursor
        except ApiError as error:
            if error.status < 500:
                raise
        except NetworkError:
            pass
        time.sleep(min(2**failures, MAX_WAIT))
        failures += 1


def _blocks(response: HTTPResponse) -> Iterator[tuple[str, str, str]]:
    """Yields the id, the type and the data of blocks (HTML, section "Server-sent events")."""
    identifier, kind, data = "", "", []
    while True:
        try:
            line = response.readline()
        except (OSError, HTTPException) as error:
            raise NetworkError("the stream was interrupted") from error
        if not line:
            return
        text = line.decode().rstrip("\r\n")
        if not text:
            yield identifier, kind, "\n".join(data)
            identifier, kind, data = "", "", []
            continue
        name, _, content = text.partition(":")
        content = content.removeprefix(" ")
        if name == "id":
            identifier = content
        elif name == "event":
            kind = content
        elif name == "data":
            data.append(content)
