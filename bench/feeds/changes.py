"""Makes random changes in a mailbox, as a mail client does.

The client has a model of the mailbox, so it knows which changes are possible. The changes depend
only on the seed."""

import time

PROTECTED = ("INBOX", "Filed", "Filed-2")
KEYWORDS = ("$Label1", "Project-X", "NonJunk")
FLAGS = ("\\Seen", "\\Flagged", "\\Answered", "\\Draft", "\\Deleted", *KEYWORDS)
NAMES = 45


class Interrupted(Exception):
    """The connection to the mail server failed, so the outcome of the change is unknown."""


class Changes:
    """The client. `backend` makes the changes: see fake.Mailbox and imap_backend.ImapBackend."""

    def __init__(self, random, backend, folders=30, messages=200, clock=time.monotonic):
        self.random = random
        self.backend = backend
        self.max_folders = folders
        self.max_messages = messages
        self.clock = clock
        self.number = 0
        # The tags of messages that have, or may have had, a copy.
        self.copied = set()
        # The time before each change of a message, its kind and the tag of the message.
        self.journal = []
        # A text for each change.
        self.log = []
        self.state = {}
        self.created = 0

    def prepare(self):
        """Creates the folders that are never renamed or deleted."""
        self.adopt()
        for path in PROTECTED:
            if path not in self.state:
                self.backend.create(path)
                self.state[path] = []

    def adopt(self):
        """Reads the mailbox again. Returns whether it differs from the model."""
        before = self.state
        self.state = self.backend.read()
        count = {}
        for messages in self.state.values():
            for tag, _ in messages:
                count[tag] = count.get(tag, 0) + 1
        self.copied.update(tag for tag, number in count.items() if number > 1)
        return before != self.state

    def change(self):
        """Makes one change."""
        self.number += 1
        total = sum(len(messages) for messages in self.state.values())
        choice = self.random.randrange(100)
        try:
            if choice < 24:
                self._append() if total < self.max_messages else self._expunge()
            elif choice < 34:
                self._expunge()
            elif choice < 50:
                self._store()
            elif choice < 60 and total < self.max_messages:
                self._copy()
            elif choice < 82:
                self._move()
            elif choice < 88:
                self._create()
            elif choice < 93:
                self._rename()
            elif choice < 94:
                self._swap()
            else:
                self._delete()
        except Interrupted:
            self._log("interrupted")
            self.backend.reconnect()
            self.adopt()

    def _log(self, *words):
        self.log.append((self.clock(), self.number, " ".join(str(word) for word in words)))

    def _note(self, kind, tags):
        now = self.clock()
        self.journal += [(now, kind, tag) for tag in tags]

    def _any(self):
        return self.random.choice(sorted(self.state))

    def _some(self):
        """Returns a folder with messages, and the positions of some adjacent messages."""
        filled = sorted(path for path, messages in self.state.items() if messages)
        if not filled:
            return None
        path = self.random.choice(filled)
        count = len(self.state[path])
        length = count if self.random.randrange(20) == 0 else self.random.randint(1, 3)
        first = self.random.randrange(count)
        return path, range(first, min(first + length, count))

    def _own(self):
        return sorted(path for path in self.state if path not in PROTECTED and path[0] == "f")

    def _path(self):
        name = f"f{self.random.randrange(NAMES)}"
        if self.random.randrange(8) == 0:
            name += " ü"
        own = self._own()
        if not own or self.random.randrange(3):
            return name
        return f"{self.random.choice(own)}/{name}"

    def _is_free(self, path):
        return not any(one == path or one.startswith(path + "/") for one in self.state)

    def _append(self):
        delivers = self.backend.can_deliver and self.random.randrange(4) == 0
        path = "INBOX" if delivers else self._any()
        keeps = self.random.randrange(2)
        flags = frozenset(flag for flag in FLAGS if self.random.randrange(6) == 0 and keeps)
        flags = frozenset() if delivers else flags - {"\\Deleted"}
        for _ in range(10 if self.random.randrange(15) == 0 else 1):
            self.created += 1
            tag = f"m{self.created:06}"
            self._log("deliver" if delivers else "append", path, tag, *sorted(flags))
            self._note("created", [tag])
            try:
                if delivers:
                    self.backend.deliver(tag)
                else:
                    self.backend.append(path, tag, flags)
            except Interrupted:
                # The message may be stored later than the next check, or twice.
                self.copied.add(tag)
                raise
            self.state[path].append((tag, flags))

    def _store(self):
        """Changes flags, sometimes several times in a row."""
        some = self._some()
        for _ in range(self.random.choice((1, 1, 1, 3))):
            self._store_flags(some)

    def _store_flags(self, some):
        flag = self.random.choice(FLAGS)
        flags = frozenset([flag, self.random.choice(FLAGS)] if self.random.randrange(4) == 0
                          else [flag])
        action = self.random.choice("+-+-=")
        if some is None:
            return
        path, positions = some
        messages = self.state[path]
        change = {"+": lambda old: old | flags, "-": lambda old: old - flags, "=": lambda _: flags}
        new = {n: (messages[n][0], change[action](messages[n][1])) for n in positions}
        self._log("store", path, [messages[n][0] for n in positions], action, *sorted(flags))
        self._note("flags", [tag for n, (tag, _) in new.items() if new[n] != messages[n]])
        self.backend.store(path, positions, action, flags)
        for n, message in new.items():
            messages[n] = message

    def _expunge(self):
        some = self._some()
        if some is None:
            return
        path, positions = some
        messages = self.state[path]
        # EXPUNGE removes all messages with \Deleted.
        gone = {n for n, (_, flags) in enumerate(messages) if "\\Deleted" in flags}
        gone |= set(positions)
        self._log("expunge", path, [messages[n][0] for n in sorted(gone)])
        self._note("deleted", [messages[n][0] for n in gone])
        self.backend.expunge(path, positions)
        self.state[path] = [message for n, message in enumerate(messages) if n not in gone]

    def _copy(self):
        some, to = self._some(), self._any()
        if some is None:
            return
        path, positions = some
        copies = [self.state[path][n] for n in positions]
        self._log("copy", path, [tag for tag, _ in copies], "to", to)
        self.copied.update(tag for tag, _ in copies)
        self.backend.copy(path, positions, to)
        self.state[to] += copies

    def _move(self):
        some, to = self._some(), self._any()
        by_copy = self.random.randrange(4) == 0
        if some is None:
            return
        path, positions = some
        if to == path:
            return
        moved = [self.state[path][n] for n in positions]
        tags = [tag for tag, _ in moved]
        self._log("copy and expunge" if by_copy else "move", path, tags, "to", to)
        try:
            if by_copy:
                self.copied.update(tags)
                self.backend.copy(path, positions, to)
                self.state[to] += moved
                gone = {n for n, (_, flags) in enumerate(self.state[path])
                        if "\\Deleted" in flags} | set(positions)
                self.backend.expunge(path, positions)
            else:
                self._note("moved", tags)
                gone = set(positions)
                self.backend.move(path, positions, to)
                self.state[to] += moved
        except Interrupted:
            self.copied.update(tags)
            raise
        messages = self.state[path]
        self.state[path] = [message for n, message in enumerate(messages) if n not in gone]

    def _create(self):
        path = self._path()
        if len(self.state) >= self.max_folders or not self._is_free(path):
            return
        self._log("create", path)
        if self.backend.create(path):
            self.state[path] = []

    def _rename(self):
        own, to = self._own(), self._path()
        if not own:
            return
        path = self.random.choice(own)
        if self._is_free(to) and not to.startswith(path + "/"):
            self._rename_folder(path, to)

    def _rename_folder(self, path, to):
        self._log("rename", path, "to", to)
        if not self.backend.rename(path, to):
            return False
        for one in list(self.state):
            if one == path or one.startswith(path + "/"):
                self.state[to + one[len(path):]] = self.state.pop(one)
        return True

    def _swap(self):
        """Exchanges the names of two folders."""
        own = [path for path in self._own() if "/" not in path]
        if len(own) < 2 or not self._is_free("f-swap"):
            return
        one, other = self.random.sample(own, 2)
        if self._rename_folder(one, "f-swap") and self._rename_folder(other, one):
            self._rename_folder("f-swap", other)

    def _delete(self):
        own, again = self._own(), self.random.randrange(2) == 0
        if not own:
            return
        path = self.random.choice(own)
        self._log("delete", path, "and create" if again else "")
        self.backend.delete(path)
        del self.state[path]
        if again and self.backend.create(path):
            self.state[path] = []
