"""Searches and threads of the fake host.

A search finds messages that contain the query as literal text. The fake host does not interpret
operators, but checks the values of `before:` and `after:`.
"""

import re

from componentize_py_types import Err
from wit_world.imports import types
from wit_world.imports.mailbox import (
    Hit,
    IndexState,
    Match,
    SearchError_InvalidQuery,
    SearchResult,
    Snippet,
    Thread,
    ThreadList,
    ThreadMessages,
)

from .errors import check, is_line

_INVALID_DATE = re.compile(r"(^| )(before|after):(?!\S{10}( |$))")


def search_messages(mail, search):
    _check_page(search.page)
    query = search.query
    text = "The search query must be 1 to 1000 bytes without control characters"
    check(1 <= len(query.encode()) <= 1000 and is_line(query), "invalid_search_term", text)
    check(search.syntax in ("operators", "plain"), "invalid_field", f'There is no query syntax "{search.syntax}"')
    check(search.sort in ("newest", "relevance"), "invalid_field", f'There is no sort order "{search.sort}"')
    if search.syntax == "operators" and _INVALID_DATE.search(query):
        raise Err(SearchError_InvalidQuery("Invalid search query: the date must be YYYY-MM-DD"))
    if search.folder is None:
        folders = [one for one in mail.folders if one.role not in ("\\Junk", "\\Trash")]
    else:
        folders = [mail.folder(search.folder)]
    query = query.lower()
    found = [message for folder in folders for message in mail.within(folder.path) if _contains(message, query)]
    hits = [_hit(mail, message, _snippet(message, query)) for message in found]

    def order(hit):
        in_text = search.sort == "relevance" and hit.snippet is not None
        position = hit.summary.date if search.folder is None else hit.summary.seq
        return in_text, position, hit.summary.uid

    hits.sort(key=order, reverse=True)
    return SearchResult(_paged(hits, search.page), len(hits), IndexState.READY)


def list_threads(mail, folder, page):
    _check_page(page)
    if folder is not None:
        mail.folder(folder)
    threads = {}
    for hit in _newest(mail):
        threads.setdefault(hit.summary.thread_id, []).append(hit)
    found = [hits for hits in threads.values() if folder is None or any(hit.folder == folder for hit in hits)]
    return ThreadList([_describe(hits) for hits in _paged(found, page)], len(found))


def get_thread(mail, id, page):
    _check_page(page)
    hits = [hit for hit in _newest(mail) if hit.summary.thread_id == id]
    if not hits:
        raise Err(types.Error_NotFound())
    return ThreadMessages(id, _paged(hits, page)[::-1], len(hits))


def _check_page(page):
    check(1 <= page.limit <= 100, "invalid_paging_parameters", "limit must be between 1 and 100")


def _paged(found, page):
    return found[page.offset : page.offset + page.limit]


def _hit(mail, message, snippet=None):
    return Hit(mail.summary(message), message.folder, snippet)


def _contains(message, query):
    """Returns whether a message contains a text in lower case."""
    detail = message.detail
    people = [*detail.summary.from_, *detail.summary.to, *detail.cc]
    parts = [detail.summary.subject, detail.text or "", detail.html or ""]
    parts += [part for one in people for part in (one.name, one.address)]
    return any(query in part.lower() for part in parts)


def _snippet(message, query):
    """Returns the plain text of a message with the position of the first match."""
    text = message.detail.text or ""
    start = text.lower().find(query)
    return Snippet(text, [Match(start, start + len(query))]) if start >= 0 else None


def _newest(mail):
    """Returns all messages, newest first."""
    messages = sorted(mail.messages, key=lambda one: (one.detail.summary.date, one.uid), reverse=True)
    return [_hit(mail, message) for message in messages]


def _describe(hits):
    """Returns a thread in the form of the contract. `hits` are its messages, newest first."""
    participants = {}
    for hit in hits[::-1]:
        for sender in hit.summary.from_:
            participants.setdefault(sender.address, sender)
    unread = sum("\\Seen" not in hit.summary.flags for hit in hits)
    newest = hits[0]
    subject = hits[-1].summary.subject
    return Thread(newest.summary.thread_id, subject, len(hits), unread, list(participants.values())[:50], newest)
