"""Follows a mailbox over JMAP (RFC 8620, RFC 8621) with `Mailbox/changes` and `Email/changes`.

An email of JMAP can be in several folders: all copies of a message are one email. Its keywords are
in lower case. Emails with the flag \\Deleted do not exist."""

import base64
import json
import time

from follower import Follower
from service import call, connect

MAIL = "urn:ietf:params:jmap:mail"
POLL = 0.1
FLAGS = {"$seen": "\\Seen", "$flagged": "\\Flagged", "$answered": "\\Answered",
         "$draft": "\\Draft"}


class CannotCalculate(Exception):
    """The server cannot calculate the changes since the state of the client."""


class Jmap(Follower):
    """`login` is the address of the HTTP server, the user and the password."""

    def __init__(self, name, login, random, copied):
        super().__init__(name)
        # The tags of messages with copies. The keywords of an email do not belong to one copy.
        self.copied = copied
        address, user, password = login
        self.base = "http://%s:%d" % address
        self.token = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.random = random
        self.client = None
        self.account = None
        # The names and the parents of folders, and the folders and the flags of emails, by id.
        self.folders = {}
        self.emails = {}
        self.states = {}

    def _connect(self):
        if self.client is None:
            self.client = connect(self.base)
            session = call(self.client, "GET", "/jmap/", self.token, scheme="Basic")
            self.account = session["primaryAccounts"][MAIL]

    def call(self, *methods):
        """Calls some methods. Returns the arguments of their responses."""
        self._connect()
        self.requests += 1
        calls = [[name, arguments | {"accountId": self.account}, str(n)]
                 for n, (name, arguments) in enumerate(methods)]
        body = {"using": ["urn:ietf:params:jmap:core", MAIL], "methodCalls": calls}
        try:
            found = call(self.client, "POST", "/jmap/", self.token, body, scheme="Basic")
        except OSError:
            self.client = None
            raise
        results = []
        for name, arguments, _ in found["methodResponses"]:
            if name == "error":
                if arguments["type"] == "cannotCalculateChanges":
                    raise CannotCalculate
                raise ConnectionError(json.dumps(arguments))
            results.append(arguments)
        return results

    def list(self):
        # The states are read first, so a concurrent change is applied twice.
        mailboxes, emails = self.call(("Mailbox/get", {"ids": None}), ("Email/get", {"ids": []}))
        ids, position = [], 0
        while True:
            page, = self.call(("Email/query", {"position": position, "limit": 200}))
            ids += page["ids"]
            position += len(page["ids"])
            if not page["ids"]:
                break
        found = {}
        for n in range(0, len(ids), 100):
            got, = self.call(self._get(ids[n:n + 100]))
            found |= {one["id"]: self._email(one) for one in got["list"]}
        with self.lock:
            self.folders = {one["id"]: (one["name"], one["parentId"]) for one in mailboxes["list"]}
            self.emails = found
            self.states = {"Mailbox": mailboxes["state"], "Email": emails["state"]}

    @staticmethod
    def _get(ids):
        return "Email/get", {"ids": ids, "properties": ["mailboxIds", "keywords", "subject"]}

    def _email(self, one):
        self.tags[one["id"]] = one["subject"]
        flags = frozenset(FLAGS.get(keyword, keyword) for keyword in one["keywords"])
        return frozenset(one["mailboxIds"]), flags

    def follow(self):
        try:
            changed = self._changes("Mailbox") | self._changes("Email")
        except CannotCalculate:
            self.resyncs += 1
            self.list()
            return
        if not changed:
            self.stopping.wait(POLL)
        if self.random.randrange(500) == 0:
            self.client = None

    def _changes(self, kind):
        """Applies the changes of emails or folders. Returns whether there were any."""
        state = self.states[kind]
        limit = self.random.choice((1, 5, 50))
        changes, = self.call((f"{kind}/changes", {"sinceState": state, "maxChanges": limit}))
        ids = changes["created"] + changes["updated"]
        got = []
        if ids:
            method = self._get(ids) if kind == "Email" else ("Mailbox/get", {"ids": ids})
            got = self.call(method)[0]["list"]
        now = time.monotonic()
        with self.lock:
            if self.states[kind] != state:
                return True
            known = self.emails if kind == "Email" else self.folders
            for one in got:
                known[one["id"]] = self._email(one) if kind == "Email" \
                    else (one["name"], one["parentId"])
            for id in changes["destroyed"]:
                known.pop(id, None)
            if kind == "Email":
                self.received += [(now, id) for id in ids + changes["destroyed"]]
            self.states[kind] = changes["newState"]
        return changes["hasMoreChanges"] or state != changes["newState"]

    def _path(self, id):
        name, parent = self.folders[id]
        name = "INBOX" if name == "Inbox" and parent is None else name
        return f"{self._path(parent)}/{name}" if parent in self.folders else name

    def rows(self):
        with self.lock:
            paths = {id: self._path(id) for id in self.folders}
            rows = []
            for id, (folders, flags) in self.emails.items():
                for folder in folders:
                    known = None if self.tags[id] in self.copied else flags
                    rows.append((id, paths.get(folder, folder), self.tags[id], known))
            return set(paths.values()), rows

    def expected(self, state):
        result = {}
        for path, messages in state.items():
            seen = {}
            for tag, flags in messages:
                if "\\Deleted" not in flags:
                    folded = (flag if flag[0] == "\\" else flag.lower() for flag in flags)
                    seen.setdefault(tag, []).append(frozenset(folded))
            result[path] = [(tag, flags[0]) for tag, flags in seen.items()]
        return result
