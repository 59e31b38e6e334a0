"""Lists with several pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def paginate(list_page: Callable[..., Any], key: str, *arguments: Any, **options: Any) -> Iterator[Any]:
    """Yields the elements of all pages of a list.

    `list_page` is an operation that returns a page, and `key` is the name of the list in the
    response: `paginate(client.mail.list_messages, "messages", "INBOX", unread=True)`.

    Pages follow `nextCursor` if the response has one. Otherwise they are counted with `page` until
    `total` elements were listed.
    """
    page, listed = options.get("page") or 1, 0
    while True:
        response = list_page(*arguments, **options)
        elements = response[key]
        listed += len(elements)
        yield from elements
        cursor = response.get("nextCursor")
        if isinstance(cursor, str):
            options.pop("page", None)
            options["cursor"] = cursor
        elif "nextCursor" in response or not elements or listed >= response.get("total", 0):
            return
        else:
            page += 1
            options["page"] = page
