"""Explores races between a sync of Latchmail and another mail client.

A proxy is between the service and Dovecot. The client changes the mailbox, and the service begins
to read the change. Before the proxy forwards the n-th response of the mail server, the client
changes the mailbox again. This repeats for each n, until the sync needs fewer responses. After each
round, a follower must have the state of the mailbox, and the message must have its id."""

import pathlib
import random
import re
import socket
import threading
import time

from compare import differences
from imap_backend import ImapBackend
from latchmail import Poll, Reader
from service import Latchmail

# The time after which the service has read a change, in seconds.
SYNC = 1.5
SETTLE = 10
RESPONSE = re.compile(rb"(^|\n)[A-Z]+\d+ (OK|NO|BAD)")


class Proxy:
    """Forwards connections to Dovecot. Runs a function before it forwards a response."""

    def __init__(self, address):
        self.address = address
        self.lock = threading.Lock()
        self.function = None
        self.left = 0
        # The last lines that were forwarded.
        self.lines = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, number, function):
        """Runs the function before response `number`, from 0."""
        with self.lock:
            self.lines, self.left, self.function = [], number, function

    def disarm(self):
        """Returns whether the function has run."""
        with self.lock:
            has_run, self.function = self.function is None, None
        return has_run

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(self.address)
            for source, target in ((client, server), (server, client)):
                arguments = (source, target, source is server)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source, target, is_response):
        try:
            while data := source.recv(65536):
                with self.lock:
                    if self.function:
                        self._note(data, is_response)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            one.close()

    def _note(self, data, is_response):
        sign = "<" if is_response else ">"
        self.lines += [f"{sign} {line}" for line in data.decode("latin1").splitlines()]
        if is_response and RESPONSE.search(data):
            if self.left == 0:
                self.function()
                self.function = None
            self.left -= 1


def scenarios(client, number):
    """Returns the scenarios: by name, the first change and the change during the sync. Each round
    has new folders."""
    a, b, c = (f"{letter}{number}" for letter in "abc")

    def move(source, target):
        client.move(source, range(1), target)

    def copy_on(source, target):
        client.copy(source, range(1), target)
        client.expunge(source, range(1))

    def moved():
        move("INBOX", a)

    def flagged():
        client.store("INBOX", range(1), "+", {"\\Seen"})

    return {
        "moved, then the folder is renamed": (moved, lambda: client.rename(a, c)),
        "moved, then the folder is replaced": (
            moved, lambda: (client.rename(a, c), client.create(a))),
        "moved, then two folders are exchanged": (
            moved, lambda: (client.rename(a, c), client.rename(b, a), client.rename(c, b))),
        "moved, then moved again": (moved, lambda: move(a, b)),
        "moved, then moved back": (moved, lambda: move(a, "INBOX")),
        "moved, then moved again and the folder deleted": (
            moved, lambda: (move(a, b), client.delete(a))),
        "moved, then moved to a folder that is renamed": (
            moved, lambda: (move(a, b), client.rename(b, c))),
        "moved, then copied and expunged": (moved, lambda: copy_on(a, b)),
        "flagged, then moved": (flagged, moved),
        "flagged, then moved to a folder that is renamed": (
            flagged, lambda: (moved(), client.rename(a, c))),
    }


class Races:
    """The service, the client and the follower."""

    def __init__(self, program, modules, folder):
        state = pathlib.Path(folder) / "state"
        self.service = Latchmail(program, modules, state, 1, None, "", has_notices=True)
        self.proxy = Proxy(self.service.imap)
        config = self.service.hosts[0].config
        text = config.read_text()
        old, new = (f'"127.0.0.1:{port}"' for port in (self.service.imap[1], self.proxy.port))
        config.write_text(text.replace(old, new))
        self.client = self.follower = None
        self.number = 0
        self.found = 0

    def run(self):
        """Returns the number of rounds in which the follower was wrong."""
        service = self.service
        try:
            service.start()
            self.client = ImapBackend(service.imap, service.user, service.password)
            reader = Reader(service, random.Random(1), True)
            self.follower = Poll("poll", service, reader, random.Random(1))
            self.follower.start()
            for name in scenarios(self.client, 0):
                rounds, found = 0, self.found
                while self._round(name, rounds):
                    rounds += 1
                print(f"{name}: {rounds} responses, {self.found - found} wrong", flush=True)
            self.follower.stop()
        finally:
            service.stop()
        return self.found

    def _round(self, name, response):
        """Returns whether the sync needed more responses."""
        self.number += 1
        for letter in "ab":
            self.client.create(f"{letter}{self.number}")
        self.client.append("INBOX", f"m{self.number:06}", frozenset())
        self._settle()
        with self.follower.lock:
            before = set(self.follower.copy.messages)
        events = len(self.follower.events)
        first, second = scenarios(self.client, self.number)[name]
        # The service can begin before the client has the response to its first change.
        is_made = threading.Event()
        self.proxy.arm(response, lambda: (is_made.wait(SYNC), second()))
        first()
        is_made.set()
        until = time.monotonic() + SYNC
        while self.proxy.function and time.monotonic() < until:
            time.sleep(0.01)
        has_run = self.proxy.disarm()
        if not has_run:
            second()
        found = self._settle()
        with self.follower.lock:
            after = set(self.follower.copy.messages)
            found += self.follower.problems
            self.follower.problems = []
            events = [event for _, event in self.follower.events[events:]]
        if after != before:
            found.append(("changed id", f"{after} instead of {before}"))
        if found:
            self.found += 1
            print(f"{name}, before response {response}: {found}")
            print("".join(f"    {line[:100]}\n" for line in self.proxy.lines[-8:]), end="")
            for event in events:
                print(f"    event: {event.kind} {event.id or ''} {event.source or ''} "
                      f"-> {event.folder}", flush=True)
        self._clean()
        return has_run

    def _settle(self):
        """Waits until the follower has the state of the mailbox. Returns the differences."""
        until = time.monotonic() + SETTLE
        while True:
            state = {path: [(None, flags) for _, flags in messages]
                     for path, messages in self.client.read().items()}
            folders, rows = self.follower.rows()
            rows = [(id, folder, None, flags) for id, folder, _, flags in rows]
            found = differences(folders, rows, state)
            if not found or time.monotonic() > until:
                return found
            time.sleep(0.02)

    def _clean(self):
        for path, messages in sorted(self.client.read().items(), reverse=True):
            if messages:
                self.client.expunge(path, range(len(messages)))
            if path[0] in "abc":
                self.client.delete(path)
        self._settle()
