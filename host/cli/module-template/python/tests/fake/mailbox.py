"""The interface `mailbox` of the fake host. Each function checks the scope of the caller."""

import re
from contextlib import contextmanager
from dataclasses import replace

from componentize_py_types import Err
from wit_world.imports import types
from wit_world.imports.mailbox import (
    AttachmentContent,
    Change_Created,
    Change_Deleted,
    Change_FolderRenamed,
    Change_Moved,
    ChangeList,
    ChangesError_CursorExpired,
    ChangesError_Failed,
    ConditionalError_Failed,
    ConditionalError_VersionMismatch,
    DeletedMessage,
    DetailWithBlobs,
    Hit,
    ImportedMessage,
    Listing,
    MessageHeader,
    PageStart_Cursor,
    RawMessage,
    SearchError_Failed,
    SearchError_InvalidQuery,
    ThreadsError_Failed,
    ThreadsError_IndexNotReady,
)

from .blob import Blob
from .errors import check, failing
from .mail import settable
from .message import header_fields, parse, select
from .search import get_thread, list_threads, search_messages

# The conditions of `list_messages`.
_FILTERS = {
    "unread": lambda message: "\\Seen" not in message.detail.summary.flags,
    "flagged": lambda message: "\\Flagged" in message.detail.summary.flags,
}


class Mailbox:
    def __init__(self, host):
        self._host = host

    def _read(self):
        return self._host.account("mail:read").mail

    def _write(self):
        return self._host.account("mail:write").mail

    def list_folders(self):
        return self._read().list()

    def list_messages(self, query):
        mail = self._read()
        _check_limit(query.limit, 100, "limit must be between 1 and 100")
        for name in query.filters:
            check(name in _FILTERS, "invalid_field", f'There is no filter "{name}"')
        mail.folder(query.folder)
        messages = mail.within(query.folder)[::-1]
        matching = [one for one in messages if all(_FILTERS[name](one) for name in query.filters)]
        # A cursor contains the query and the arrival of the last message of the page.
        prefix = f"{query.folder} {','.join(sorted(query.filters))} "
        if isinstance(query.start, PageStart_Cursor):
            arrival = query.start.value.removeprefix(prefix)
            valid = query.start.value.startswith(prefix) and arrival.isdecimal()
            check(valid, "invalid_cursor", "Invalid cursor")
            rest = [one for one in matching if one.arrival < int(arrival)]
        else:
            rest = matching[query.start.value :]
        page = rest[: query.limit]
        following = f"{prefix}{page[-1].arrival}" if len(rest) > query.limit else None
        return Listing([mail.summary(one) for one in page], len(matching), following)

    def get_message(self, uid):
        return self._read().detail(uid)

    def get_message_with_blobs(self, uid):
        return _with_blobs(self._read().detail(uid))

    def get_attachment(self, uid, index):
        mail = self._read()
        message = mail.find(uid)
        attachments = message.detail.attachments
        if index >= len(attachments):
            return None
        content = Blob(message.contents[index])
        return AttachmentContent(attachments[index], content, mail.versions(message).content)

    def list_changes(self, since, folder, limit):
        """A cursor contains the number of earlier changes, and the folder.

        Unlike the service, the fake host does not collapse several changes to one message.
        """
        with failing(ChangesError_Failed, ChangesError_CursorExpired):
            mail = self._read()
            _check_limit(limit, 500, "The limit must be 1 to 500")
            if folder is not None:
                mail.folder(folder)
            suffix = "" if folder is None else f" {folder}"
            start = len(mail.changes)
            if since is not None:
                number = re.match(r"\d+|", since)[0]
                if since != f"{number}{suffix}" or not number or int(number) > start:
                    raise Err(ChangesError_CursorExpired())
                start = int(number)
            end = min(start + limit, len(mail.changes))
            changes = [_seen_in(change, folder) for change in mail.changes[start:end]]
            found = [change for change in changes if change is not None]
            return ChangeList(f"{end}{suffix}", end < len(mail.changes), found)

    def search_messages(self, search):
        with failing(SearchError_Failed, SearchError_InvalidQuery):
            return search_messages(self._read(), search)

    def list_threads(self, folder, page):
        with failing(ThreadsError_Failed, ThreadsError_IndexNotReady):
            return list_threads(self._read(), folder, page)

    def get_thread(self, id, page):
        with failing(ThreadsError_Failed, ThreadsError_IndexNotReady):
            return get_thread(self._read(), id, page)

    @contextmanager
    def _change(self, uids, if_version):
        """Returns the mail and the messages that exist. With `if_version`, compares the version of the message."""
        with failing(ConditionalError_Failed, ConditionalError_VersionMismatch):
            mail = self._write()
            known = mail.known(uids)
            if if_version is not None:
                check(len(uids) == 1, "invalid_field", "if-version needs exactly one message")
                if any(mail.versions(message).state != if_version for message in known):
                    raise Err(ConditionalError_VersionMismatch())
            yield mail, known

    def set_flags(self, uids, flags, action, if_version):
        with self._change(uids, if_version) as (mail, known):
            mail.set_flags(known, flags, action)
        return _uids(known)

    def move_messages(self, uids, destination, if_version):
        with self._change(uids, if_version) as (mail, known):
            mail.move(known, destination)
        return _uids(known)

    def delete_messages(self, uids, if_version):
        with self._change(uids, if_version) as (mail, known):
            mail.delete(known)
        return _uids(known)

    def get_version(self, uid):
        mail = self._read()
        return mail.versions(mail.find(uid))

    def trash_messages(self, uids, if_version):
        with self._change(uids, if_version) as (mail, known):
            mail.trash(known)
        return _uids(known)

    def restore_messages(self, uids):
        mail = self._write()
        return _uids(mail.restore(mail.known(uids)))

    def copy_messages(self, uids, destination):
        mail = self._write()
        return mail.copy(mail.known(uids), destination)

    def create_folder(self, path):
        return self._write().create_folder(path)

    def rename_folder(self, folder, path):
        return self._write().rename_folder(folder, path)

    def delete_folder(self, folder, messages):
        self._write().delete_folder(folder, messages)

    def get_quota(self):
        return self._read().quota

    def get_raw_message(self, uid):
        mail = self._read()
        message = mail.find(uid)
        version = mail.versions(message).content
        return RawMessage(message.detail.summary.subject, Blob(mail.raw(message)), version)

    def get_header(self, uid, names):
        mail = self._read()
        fields = header_fields(mail.raw(mail.find(uid)))
        return MessageHeader(select(fields, names), truncated=False)

    def get_summaries(self, uids):
        return [Hit(detail.summary, detail.folder, None) for detail in self._several(uids, 100)]

    def get_messages_with_blobs(self, uids):
        return [_with_blobs(detail) for detail in self._several(uids, 20)]

    def _several(self, uids, limit):
        """Returns the messages that exist, in the order of `uids`."""
        mail = self._read()
        text = f"At most {limit} messages at once"
        check(len(uids) <= limit, "too_many_messages", text, types.Error_TooLarge)
        known = _uids(mail.known(uids))
        return [mail.detail(uid) for uid in uids if uid in known]

    def import_message(self, folder, message, flags, received_at, key):
        mail = self._write()
        content = message.content
        given = (folder, content, flags, received_at)
        if key is not None and key in mail.imports:
            earlier, imported = mail.imports[key]
            text = "This Idempotency-Key was used for another message"
            check(earlier == given, "idempotency_key_reused", text, types.Error_Conflict)
            return replace(imported, replayed=True)
        date = self._host.now if received_at is None else received_at
        stored = mail.put(mail.folder(folder).path, parse(content, date, settable(flags)))
        stored.raw = content
        stored.detail.summary.size = len(content)
        imported = ImportedMessage(stored.uid, folder, replayed=False)
        mail.imports[key] = (given, imported)
        return imported


def _uids(messages):
    return [message.uid for message in messages]


def _check_limit(limit, highest, text):
    check(1 <= limit <= highest, "invalid_paging_parameters", text)


def _with_blobs(detail):
    texts = [text if text is None else Blob(text) for text in (detail.text, detail.html, detail.new_text)]
    return DetailWithBlobs(replace(detail, text=None, html=None, new_text=None), *texts)


def _seen_in(change, folder):
    """Returns a change as it appears in one folder, or None if the change does not concern the folder."""
    value = change.value
    if folder is None:
        return change
    if isinstance(change, Change_Moved):
        if value.message.folder == folder:
            return Change_Created(value.message)
        deleted = DeletedMessage(value.message.uid, value.from_)
        return Change_Deleted(deleted) if value.from_ == folder else None
    path = value.folder.folder if isinstance(change, Change_FolderRenamed) else value.folder
    return change if path == folder else None
