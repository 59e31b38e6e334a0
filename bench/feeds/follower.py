"""A follower: a client that keeps a copy of a mailbox with a feed, in a thread of its own."""

import threading
import time

from events import Copy


class Follower:
    """The part that all followers have. A subclass implements `follow` and `rows`."""

    # Whether a message keeps its id when it is moved.
    has_stable_ids = True

    def __init__(self, name):
        self.name = name
        self.lock = threading.RLock()
        self.stopping = threading.Event()
        # Makes the thread list the mailbox again.
        self.must_list = threading.Event()
        # The number of requests, commands or attempts to deliver an event.
        self.requests = 0
        # The number of times that the follower had to list the mailbox again.
        self.resyncs = 0
        self.interruptions = 0
        # Tuples of a kind and a text, since the last check.
        self.problems = []
        # The time at which each change of a message arrived, and the id of the message.
        self.received = []
        self.tags = {}
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self):
        """Lists the mailbox, and begins to follow the feed."""
        self.list()
        self.thread.start()

    def stop(self):
        """Ends the thread."""
        self.stopping.set()
        self.thread.join(30)

    def _run(self):
        while not self.stopping.is_set():
            try:
                if self.must_list.is_set():
                    self.list()
                    self.must_list.clear()
                self.follow()
            # The service or the mail server does not respond.
            except OSError:
                self.interruptions += 1
                self.stopping.wait(0.1)
            except Exception as error:  # pylint: disable=broad-exception-caught
                self.problem("follower", f"{type(error).__name__}: {error}")
                self.stopping.wait(1)

    def problem(self, kind, text):
        """Records that the feed is wrong."""
        with self.lock:
            self.problems.append((kind, text))

    def list(self):
        """Lists the mailbox, and replaces the copy."""
        raise NotImplementedError

    def follow(self):
        """Follows the feed until the connection ends."""
        raise NotImplementedError

    def rows(self):
        """Returns the folders and the rows of the copy (see compare.py)."""
        raise NotImplementedError

    def expected(self, state):
        """Returns the part of the mailbox that this follower sees."""
        return state

    def settled(self):
        """Runs when the follower has, or should have, all changes."""


class CopyFollower(Follower):
    """A follower that gets events."""

    def __init__(self, name, folder=None):
        super().__init__(name)
        self.copy = Copy(folder, accepts_deletions=True)
        self.events = []

    def replace(self, folders, messages):
        """Replaces the copy after the mailbox was listed."""
        with self.lock:
            self.copy.replace(folders, messages)

    def apply(self, event):
        """Applies an event."""
        now = time.monotonic()
        with self.lock:
            self.events.append((now, event))
            if event.id is not None:
                self.received.append((now, event.id))
            problem = self.copy.apply(event)
            if problem:
                self.problem("event", problem)

    def rows(self):
        with self.lock:
            rows = [(id, folder, self.tags.get(id), flags)
                    for id, (folder, flags) in self.copy.messages.items()]
            return set(self.copy.folders), rows

    def expected(self, state):
        folder = self.copy.folder
        return state if folder is None else {folder: state.get(folder, [])}
