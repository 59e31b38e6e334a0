"""Messages of the fake host, and their stored form. A message has one text and no encodings."""

import re
from dataclasses import dataclass, field
from email.utils import formatdate

from wit_world.imports.mailbox import (
    Address,
    Attachment,
    Authentication,
    Detail,
    HeaderField,
    Spam,
    Summary,
    Verdict,
)

from .errors import check

_FIELD_NAME = "[!-9;-~]+"


@dataclass
class Letter:
    """The values of a message that a test delivers. Addresses are texts or records."""

    sender: str | Address
    to: list = field(default_factory=list)
    cc: list = field(default_factory=list)
    reply_to: list = field(default_factory=list)
    subject: str = ""
    text: str | None = None
    html: str | None = None
    date: int = 0
    flags: list = field(default_factory=list)
    message_id: str = ""
    in_reply_to: str | None = None
    references: list | None = None
    files: list = field(default_factory=list)


@dataclass
class File:
    """An attachment with its content."""

    filename: str
    content_type: str
    content: bytes | str
    content_id: str | None = None
    inline: bool = False


def address(text):
    """Parses `address` or `Name <address>`. Returns a record unchanged."""
    if isinstance(text, Address):
        return text
    name, bracket, found = text.removesuffix(">").rpartition("<")
    return Address(name.strip(), found) if bracket else Address("", text)


def _bytes(content):
    return content.encode() if isinstance(content, str) else content


def _new_text(text, html):
    """Returns the text without quoted lines. Without a text, returns the HTML without its tags."""
    if text is not None:
        return "\n".join(line for line in text.splitlines() if not line.startswith(">")).strip()
    return None if html is None else re.sub("<[^>]*>", " ", html).strip()


def compose(uid, thread_id, letter):
    """Returns the message in the form of the contract, and the content of the files."""
    contents = [_bytes(file.content) for file in letter.files]
    new_text = _new_text(letter.text, letter.html)
    texts = [letter.subject, letter.text or "", letter.html or ""]
    attachments = [
        Attachment(
            index,
            file.filename,
            file.content_type,
            len(content),
            file.content_id,
            "inline" if file.inline else "attachment",
        )
        for index, (file, content) in enumerate(zip(letter.files, contents))
    ]
    references = letter.references
    if references is None:
        references = [] if letter.in_reply_to is None else [letter.in_reply_to]
    detail = Detail(
        summary=Summary(
            uid=uid,
            seq=0,
            from_=[address(letter.sender)],
            to=[address(one) for one in letter.to],
            subject=letter.subject,
            date=letter.date,
            flags=list(letter.flags),
            size=sum(map(len, contents)) + sum(len(text.encode()) for text in texts),
            preview=" ".join((letter.text or new_text or "").split())[:256],
            thread_id=thread_id,
        ),
        cc=[address(one) for one in letter.cc],
        reply_to=[address(one) for one in letter.reply_to],
        message_id=letter.message_id or f"<{uid}@example.test>",
        in_reply_to=letter.in_reply_to,
        references=references,
        text=letter.text,
        html=letter.html,
        new_text=new_text,
        attachments=attachments,
        truncated=False,
        authentication=Authentication(Verdict.NONE, None),
        folder="",
        mailing_list=None,
        auto_submitted=None,
        spam=Spam("none", None),
        version="",
    )
    return detail, contents


def write(detail, contents):
    """Returns the stored form of a message. The content of its attachments follows the text."""

    def addresses(people):
        return ", ".join(f"{one.name} <{one.address}>" if one.name else one.address for one in people)

    fields = {
        "From": addresses(detail.summary.from_),
        "To": addresses(detail.summary.to),
        "Cc": addresses(detail.cc),
        "Subject": detail.summary.subject,
        "Date": formatdate(detail.summary.date / 1000),
        "Message-ID": detail.message_id,
        "In-Reply-To": detail.in_reply_to,
        "References": " ".join(detail.references),
    }
    header = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"{header}\r\n{detail.text or detail.html or ''}".encode() + b"".join(contents)


def header_fields(content):
    """Returns the unfolded header fields of a stored message."""
    header = re.split(r"\r?\n\r?\n", content.decode(errors="replace"))[0]
    lines = re.sub(r"\r?\n[ \t]+", " ", header).splitlines()
    parts = [line.partition(":") for line in lines]
    return [HeaderField(name.strip(), value.strip()) for name, _, value in parts]


def parse(content, date, flags):
    """Parses a message that is imported."""
    text = content.decode(errors="replace")
    check(re.match(rf"{_FIELD_NAME}[ \t]*:", text), "invalid_message", "Invalid message")
    check("\0" not in text, "invalid_message", "Invalid message: it contains a NUL byte")
    # The first field with a name counts.
    values = {one.name.lower(): one.value for one in header_fields(content)[::-1]}
    return Letter(
        sender=values.get("from", ""),
        to=values["to"].split(", ") if "to" in values else [],
        subject=values.get("subject", ""),
        text=re.split(r"\r?\n\r?\n", f"{text}\r\n\r\n", maxsplit=1)[1].removesuffix("\r\n\r\n"),
        date=date,
        flags=flags,
        message_id=values.get("message-id", ""),
        in_reply_to=values.get("in-reply-to"),
    )


def select(fields, names):
    """Checks the names of header fields, and returns the fields with these names."""
    if names is None:
        return fields
    code = "invalid_headers_parameter"
    check(len(names) <= 100, code, "At most 100 names of header fields at once")
    for name in names:
        check(re.fullmatch(_FIELD_NAME, name), code, f'"{name}" is not the name of a header field')
    wanted = [name.lower() for name in names]
    return [one for one in fields if one.name.lower() in wanted]
