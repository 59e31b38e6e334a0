"""The interface `outbox` of the fake host.

A sent message is stored in the folder `Sent` and in `host.sent`. The message is not delivered.
"""

import re
from copy import deepcopy
from dataclasses import dataclass, replace

from componentize_py_types import Err
from wit_world.imports import types
from wit_world.imports.outbox import (
    Draft,
    FileSource_Blob,
    FileSource_Message,
    FileSource_Part,
    FileSource_Upload,
    SendError_Failed,
    SendError_FileNotFound,
    Sent,
    UploadedFile,
)

from .errors import check, failing, is_line
from .message import File, Letter

_HEADER = re.compile(r"(?!x-(spam|virus))(x-[\w-]+|list-[\w-]+|auto-submitted|importance|precedence)", re.I | re.A)
_MAX_UPLOAD = 25 * 1024 * 1024
_HOUR = 3_600_000


@dataclass
class SentMessage:
    """A message that the module sent. The files have the bytes of their sources."""

    draft: Draft
    files: list
    key: str | None
    result: Sent


class Outbox:
    def __init__(self, host):
        self._host = host

    def send(self, draft, options):
        key = options.key
        with failing(SendError_Failed, SendError_FileNotFound):
            is_now = options.send_at is None and options.undo_seconds is None
            check(is_now, "invalid_send_time", "The fake host sends only at once")
            sender = self._host.account("mail:send")
            _check_sender(sender, draft.from_)
            if any(isinstance(file.source, (FileSource_Part, FileSource_Message)) for file in draft.files):
                self._host.account("mail:read")
            # A blob exists only during the call, so the bytes are compared.
            draft = deepcopy(draft)
            for file in draft.files:
                if isinstance(file.source, FileSource_Blob):
                    file.source.value = file.source.value.content
            for earlier in sender.sent:
                if key is not None and earlier.key == key:
                    text = "This Idempotency-Key was used for another message"
                    check(earlier.draft == draft, "idempotency_key_reused", text, types.Error_Conflict)
                    return replace(earlier.result, replayed=True)
            _check_draft(draft)
            relation = draft.original.relation if draft.original else "reply"
            check(relation in ("reply", "forward"), "invalid_draft", "Invalid relation")
            files = [self._find_file(sender, file, index) for index, file in enumerate(draft.files)]
            letter = Letter(
                sender=draft.from_,
                to=draft.to,
                cc=draft.cc,
                reply_to=draft.reply_to,
                subject=draft.subject,
                text=draft.text,
                html=draft.html,
                date=self._host.now,
                flags=["\\Seen"],
                in_reply_to=draft.in_reply_to,
                references=draft.references,
                files=files,
            )
            message = sender.mail.put("Sent", letter)
            if self._allows("mail:read"):
                flag = "\\Answered" if relation == "reply" else "$Forwarded"
                if draft.original is not None:
                    originals = sender.mail.known([draft.original.uid])
                else:
                    originals = sender.mail.with_message_id(draft.in_reply_to)
                for original in originals:
                    summary = original.detail.summary
                    summary.flags = list(dict.fromkeys([*summary.flags, flag]))
            result = Sent("sent", None, None, message.detail.message_id, "Sent", replayed=False)
            sender.sent.append(SentMessage(draft, files, key, result))
            return result

    def _allows(self, scope):
        try:
            self._host.account(scope)
        except Err:
            return False
        return True

    def upload(self, filename, content_type, content):
        uploads = self._host.account("mail:send").uploads
        valid = _is_name(filename) and _is_media_type(content_type)
        check(valid, "invalid_draft", "Invalid file name or media type")
        size = content.size()
        check(size <= _MAX_UPLOAD, "upload_too_large", "An upload must be at most 25 MB", types.Error_TooLarge)
        uploaded = UploadedFile(f"upload{len(uploads) + 1}", filename, content_type, size, self._host.now + _HOUR)
        uploads[uploaded.id] = (uploaded, content.content)
        return uploaded

    def _find_file(self, sender, file, index):
        """Returns a file with the bytes of its source."""
        found = self._read(sender, file.source)
        if found is None:
            raise Err(SendError_FileNotFound(index))
        return File(
            file.filename or found.filename,
            file.content_type or found.content_type,
            found.content,
            file.content_id,
            file.inline,
        )

    def _read(self, sender, source):
        if isinstance(source, FileSource_Blob):
            return File("", "application/octet-stream", source.value)
        if isinstance(source, FileSource_Upload):
            uploaded, content = sender.uploads.get(source.value, (None, b""))
            expired = uploaded is None or uploaded.expires_at <= self._host.now
            return None if expired else File(uploaded.filename, uploaded.content_type, content)
        uid = source.value.uid if isinstance(source, FileSource_Part) else source.value
        for message in sender.mail.known([uid]):
            if isinstance(source, FileSource_Message):
                name = f"{message.detail.summary.subject or 'message'}.eml"
                return File(name, "message/rfc822", sender.mail.raw(message))
            for attachment in message.detail.attachments:
                if attachment.index == source.value.index:
                    content = message.contents[attachment.index]
                    return File(attachment.filename, attachment.content_type, content)
        return None


def _check_sender(account, sender):
    check(sender is not None, "invalid_draft", "Invalid sender")
    own = [account.address] + [alias.address for alias in account.aliases if alias.active]
    text = "You can only send from your own address or active aliases"
    check(sender.address.lower() in own, "sender_not_allowed", text, types.Error_Denied)


def _check_draft(draft):
    def valid(condition, text):
        check(condition, "invalid_draft", text)

    recipients = draft.to + draft.cc + draft.bcc
    valid(recipients, "A message needs a recipient")
    valid(all(map(_is_person, recipients)), "A recipient is not an address")
    valid(is_line(draft.subject), "The subject must be one line")
    senders = all(map(_is_person, draft.reply_to)) and is_line(draft.from_.name)
    valid(senders, "A sender or an address for replies is invalid")
    for header in draft.headers:
        allowed = _HEADER.fullmatch(header.name) and header.value.strip() and is_line(header.value)
        valid(allowed, "A header field is not allowed")
    names = [header.name.lower() for header in draft.headers]
    valid(_is_unique(name for name in names if not name.startswith("x-")), "A header field occurs twice")
    for file in draft.files:
        unnamed = file.filename is None and not isinstance(file.source, FileSource_Blob)
        named = unnamed or _is_name(file.filename or "")
        typed = file.content_type is None or _is_media_type(file.content_type)
        valid(named and typed, "A file's name or media type is invalid")
    ids = [file.content_id for file in draft.files if file.content_id is not None]
    valid(all(re.fullmatch("[!-;=-~]+", one) for one in ids), "A Content-ID is invalid")
    valid(_is_unique(ids), "A Content-ID occurs twice")


def _is_unique(values):
    found = list(values)
    return len(set(found)) == len(found)


def _is_name(text):
    return text != "" and is_line(text)


def _is_media_type(text):
    return re.fullmatch("[^/]+/[^/]+", text) is not None and is_line(text)


def _is_person(one):
    return is_line(one.name) and re.fullmatch(r"\S+@[^\s@]+", one.address) is not None
