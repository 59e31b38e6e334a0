"""Makes changes in a real mailbox with an IMAP client and LMTP."""

import smtplib
import time

import imap
from changes import Interrupted

MESSAGE = "From: Grace <grace@example.org>\r\nTo: Ada <ada@example.org>\r\n" \
    "Subject: {tag}\r\nMessage-ID: <{tag}@example.org>\r\n" \
    "Date: Sun, 29 Nov 2026 08:00:00 +0000\r\n\r\nThe text of {tag}.\r\n"


class ImapBackend:
    """The mailbox of one account. `lmtp` is the address for deliveries, or None."""

    def __init__(self, address, user, password, lmtp=None, recipient=None, restart=None):
        self.login = (address, user, password)
        self.lmtp = lmtp
        self.recipient = recipient
        # Starts the mail server again if it does not run.
        self.restart = restart or (lambda: None)
        self.client = None
        self.selected = None
        self.reader = None
        self.reconnect()

    @property
    def can_deliver(self):
        return self.lmtp is not None

    def reconnect(self):
        """Connects again, as soon as the server accepts connections."""
        self.restart()
        until = time.monotonic() + 60
        while True:
            try:
                self.client = imap.Imap(*self.login)
                self.reader = imap.Imap(*self.login)
                self.selected = None
                return
            except imap.Error:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def read(self):
        """Reads the mailbox on a second connection."""
        while True:
            try:
                return self._read()
            except imap.Error:
                self.reconnect()

    def _read(self):
        state = {}
        for path in imap.folders(self.reader):
            name = imap.encoded(path)
            try:
                opened = self.reader.command(f"EXAMINE {name}")
            except imap.Refused:
                # A kill of the server can leave a part of a deleted folder.
                continue
            count = next(int(r[1]) for r in opened if r[2:] == ["EXISTS"])
            state[path] = []
            if count:
                found = self.reader.command(f"FETCH 1:* (UID FLAGS {imap.HEADER})")
                state[path] = [(imap.subject_of(item), imap.flags_of(item))
                               for item in imap.fetched(found)]
        # Dovecot ends a session whose open folder is renamed or deleted.
        self.reader.command("UNSELECT")
        return state

    def _command(self, text, literal=None):
        try:
            return self.client.command(text, literal)
        except imap.Error as error:
            raise Interrupted from error

    def _select(self, path):
        if self.selected != path:
            self._command("SELECT " + imap.encoded(path))
            self.selected = path

    def _close(self):
        if self.selected is not None:
            self._command("UNSELECT")
            self.selected = None

    def append(self, path, tag, flags):
        message = MESSAGE.format(tag=tag).encode()
        words = " ".join(sorted(flags))
        self._command(f"APPEND {imap.encoded(path)} ({words})", message)

    def deliver(self, tag):
        # An open folder would get the message only with the next command.
        self._close()
        try:
            with smtplib.LMTP(*self.lmtp, timeout=60) as client:
                client.sendmail("grace@example.org", [self.recipient],
                                MESSAGE.format(tag=tag).encode())
        except (OSError, smtplib.SMTPException) as error:
            raise Interrupted from error

    def store(self, path, positions, action, flags):
        self._select(path)
        words = " ".join(sorted(flags))
        action = action.replace("=", "")
        self._command(f"STORE {_set(positions)} {action}FLAGS ({words})")

    def expunge(self, path, positions):
        self._select(path)
        self._command(f"STORE {_set(positions)} +FLAGS (\\Deleted)")
        self._command("EXPUNGE")

    def copy(self, path, positions, to):
        self._select(path)
        self._command(f"COPY {_set(positions)} {imap.encoded(to)}")

    def move(self, path, positions, to):
        self._select(path)
        self._command(f"MOVE {_set(positions)} {imap.encoded(to)}")

    def create(self, path):
        return self._folder_command("CREATE " + imap.encoded(path))

    def rename(self, path, to):
        return self._folder_command(f"RENAME {imap.encoded(path)} {imap.encoded(to)}")

    def delete(self, path):
        self._folder_command("DELETE " + imap.encoded(path))

    def _folder_command(self, text):
        # A folder that is open cannot be deleted.
        self._close()
        try:
            self._command(text)
        except imap.Refused:
            # For example, the name belongs to a deleted folder with subfolders.
            return False
        return True


def _set(positions):
    return f"{positions.start + 1}:{positions.stop}"
