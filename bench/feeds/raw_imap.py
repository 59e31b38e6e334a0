"""Follows a mailbox over IMAP without a service: NOTIFY (RFC 5465) wakes the follower, and QRESYNC
(RFC 7162) returns the changes of a folder. IMAP has no ids for messages that move."""

import time

import imap
from follower import Follower

EVENTS = "MessageNew MessageExpunge FlagChange MailboxName"
STATUS = "UIDVALIDITY HIGHESTMODSEQ UIDNEXT MESSAGES"
# The time without a notification after which all folders are opened, because a notification can be
# lost.
CHECK = 4
# The interval at which the folders are listed if the server does not notify.
POLL = 0.25


class Folder:
    """What the follower knows of a folder: the tag and the flags of each message, by UID."""

    def __init__(self, uid_validity):
        self.uid_validity = uid_validity
        self.status = None
        self.modseq = 0
        self.messages = {}


class RawImap(Follower):
    """`login` is the address, the user and the password."""

    has_stable_ids = False

    def __init__(self, name, login, random):
        super().__init__(name)
        self.login = login
        self.random = random
        self.folders = {}
        self.client = None
        self.waiting = None

    def list(self):
        with self.lock:
            self.folders = {}
        self._connect()
        self._sync()

    def _connect(self):
        self._close()
        try:
            self.client = imap.Imap(*self.login)
            self.client.command("ENABLE QRESYNC")
            self.waiting = imap.Imap(*self.login)
            try:
                self.waiting.command(f"NOTIFY SET (personal ({EVENTS}))")
            except imap.Refused:
                # Dovecot refuses NOTIFY for all folders with `mailbox_list_index = no`.
                self.waiting.close()
                self.waiting = None
        except imap.Error as error:
            raise ConnectionError(str(error)) from error

    def _close(self):
        for client in (self.client, self.waiting):
            if client:
                self.requests += client.commands
                client.close()
        self.client = self.waiting = None

    def follow(self):
        if self.client is None:
            self._connect()
            self._sync()
        try:
            self._sync(is_check=not self._wait())
            # A client is sometimes disconnected.
            if self.random.randrange(500) == 0:
                self._close()
        except imap.Error as error:
            self._close()
            raise ConnectionError(str(error)) from error

    def _wait(self):
        """Waits for a notification. Returns whether there was one."""
        if self.waiting is None:
            self.stopping.wait(POLL)
            return True
        until = time.monotonic() + CHECK
        while not self.stopping.is_set() and time.monotonic() < until:
            try:
                self.waiting.receive(0.5)
            except TimeoutError:
                continue
            # Several notifications cause one synchronization.
            try:
                while True:
                    self.waiting.receive(0.001)
            except TimeoutError:
                return True
        return False

    def _sync(self, is_check=False):
        listed = self.client.command(f'LIST "" "*" RETURN (STATUS ({STATUS}))')
        found = {}
        for response in listed:
            if response[1] == "STATUS":
                numbers = response[3]
                found[imap.decoded(response[2])] = dict(zip(numbers[::2], numbers[1::2]))
        with self.lock:
            for path in set(self.folders) - set(found):
                del self.folders[path]
        for path, status in found.items():
            known = self.folders.get(path)
            if known is None or known.uid_validity != status["UIDVALIDITY"]:
                known = Folder(status["UIDVALIDITY"])
            if is_check or known.status != status:
                try:
                    self._read(path, known)
                except imap.Refused:
                    # The folder was renamed or deleted since it was listed.
                    with self.lock:
                        self.folders.pop(path, None)
                    continue
                known.status = status
            with self.lock:
                self.folders[path] = known

    def _read(self, path, folder):
        name = imap.encoded(path)
        if folder.modseq:
            opened = self.client.command(
                f"SELECT {name} (QRESYNC ({folder.uid_validity} {folder.modseq}))")
        else:
            opened = self.client.command(f"SELECT {name}")
        values = {one[2].lstrip("["): str(one[3]).rstrip("]") for one in opened
                  if one[1] == "OK" and len(one) > 3}
        if values["UIDVALIDITY"] != folder.uid_validity:
            # Another folder got this path since it was listed.
            raise imap.Refused("the folder was replaced")
        if not folder.modseq:
            opened += self.client.command("UID FETCH 1:* (FLAGS)")
        now = time.monotonic()
        new = {}
        with self.lock:
            for response in opened:
                if response[1] == "VANISHED":
                    for uid in _uids(response[-1]):
                        if folder.messages.pop(uid, None):
                            self.received.append((now, (path, folder.uid_validity, uid)))
            for item in imap.fetched(opened):
                uid, flags = int(item["UID"]), imap.flags_of(item)
                if uid in folder.messages:
                    folder.messages[uid] = (folder.messages[uid][0], flags)
                else:
                    new[uid] = flags
                self.received.append((now, (path, folder.uid_validity, uid)))
        if new:
            uids = ",".join(map(str, sorted(new)))
            for item in imap.fetched(self.client.command(f"UID FETCH {uids} ({imap.HEADER})")):
                subject = imap.subject_of(item)
                if subject is None:
                    continue
                uid = int(item["UID"])
                with self.lock:
                    folder.messages[uid] = (subject, new[uid])
                    self.tags[path, folder.uid_validity, uid] = subject
        folder.modseq = int(values.get("HIGHESTMODSEQ", 0))
        self.client.command("UNSELECT")

    def rows(self):
        with self.lock:
            rows = [((path, folder.uid_validity, uid), path, tag, flags)
                    for path, folder in self.folders.items()
                    for uid, (tag, flags) in folder.messages.items()]
            return set(self.folders), rows

    def stop(self):
        super().stop()
        self._close()


def _uids(text):
    for part in text.split(","):
        first, _, last = part.partition(":")
        yield from range(int(first), int(last or first) + 1)
