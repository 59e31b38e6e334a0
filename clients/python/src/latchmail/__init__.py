"""The client of the Latchmail API.

`Latchmail(base_url, token).mail.list_folders()` returns the folders of the mailbox. The operations
are generated from the API description. This module adds pages and streams of events.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._events import Event, stream_events
from ._generated import API_VERSION, Areas
from ._pages import paginate
from ._transport import ApiError, NetworkError, Transport
from .webhooks import WebhookError, verify_webhook

__all__ = [
    "API_VERSION",
    "ApiError",
    "Event",
    "Latchmail",
    "NetworkError",
    "WebhookError",
    "paginate",
    "verify_webhook",
]


class Latchmail(Areas):
    """The client of one account.

    base_url: the URL of the service, for example `https://mail.example.org`.
    token: an API token, or the access token of a session or of a grant.
    retries: the maximum number of repetitions of a request.
    max_wait: the longest wait before a repetition, in seconds.
    timeout: the time without data after which a request fails, in seconds.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        retries: int = 3,
        max_wait: float = 60,
        timeout: float = 60,
    ) -> None:
        transport = Transport(base_url, token, retries, max_wait, timeout)
        super().__init__(transport)
        self._events = transport

    def events(
        self,
        *,
        folder: str | None = None,
        types: list[str] | None = None,
        since: str | None = None,
    ) -> Iterator[Event]:
        """Yields the events of the mailbox as they happen.

        After an interruption, the stream continues with the event after the last one. Raises
        ApiError if the service ends the stream, for example because the token was revoked.
        """
        return stream_events(self._events, folder, types, since)
