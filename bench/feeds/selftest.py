"""Tests the bench with a fake feed: it must find each planted defect, and nothing else."""

import random
import sys
import time

import fake
from changes import Changes
from compare import Identities, differences
from events import Copy

CHANGES = 5000


class FakeFollower:
    """Follows the fake feed with pages of random sizes and random interruptions."""

    def __init__(self, feed, random, folder=None):
        self.feed = feed
        self.random = random
        self.copy = Copy(folder)
        self.tags = {}
        self.unread = set()
        self.found = []
        self.identities = Identities()
        self._list()

    def _list(self):
        folders, messages, self.cursor = self.feed.list()
        if self.copy.folder is not None:
            folders = {self.copy.folder}
            messages = {id: m for id, m in messages.items() if m[0] == self.copy.folder}
        self.copy.replace(folders, messages)
        self.resumes = False
        for id in messages:
            self._read(id)

    def _read(self, id):
        self.tags[id] = self.feed.tag(id)
        if self.tags[id] is None:
            self.unread.add(id)

    def step(self):
        """Reads one page. Sometimes the connection ends in the middle of the page. Returns whether
        more events follow."""
        if self.feed.is_down:
            return False
        limit = self.random.choice((1, 2, 5, 20, 500))
        try:
            page, cursor, more = self.feed.read(
                self.cursor, limit, self.copy.folder, self.resumes)
        except fake.Expired:
            self._list()
            return False
        self.resumes = False
        if page and self.random.randrange(4) == 0:
            page = page[:self.random.randint(1, len(page))]
            cursor, more, self.resumes = page[-1].cursor, True, True
        for event in page:
            problem = self.copy.apply(event)
            if problem:
                self.found.append(("event", problem))
            if event.id in self.copy.messages and event.id not in self.tags:
                self._read(event.id)
        self.cursor = cursor
        return more

    def check(self, state, copied):
        """Compares the copy with the mailbox."""
        while self.step():
            pass
        for id in sorted(self.unread & set(self.copy.messages), key=str):
            self.tags[id] = self.feed.tag(id)
            if self.tags[id]:
                self.found.append(("not visible", f"{self.tags[id]} when its event arrived"))
        self.unread.clear()
        if self.copy.folder is not None:
            state = {self.copy.folder: state[self.copy.folder]}
        rows = [(id, folder, self.tags[id], flags)
                for id, (folder, flags) in self.copy.messages.items()]
        self.found += differences(self.copy.folders, rows, state)
        self.found += self.identities.changes(rows, copied)


def run(seed, defect=None, number=CHANGES):
    """Returns the first differences and the number of changes until then."""
    chance = random.Random(seed)
    feed = fake.Feed(defect)
    mailbox = fake.Mailbox(feed)
    changes = Changes(random.Random(seed), mailbox, folders=12, messages=60)
    changes.prepare()
    followers = [FakeFollower(feed, chance), FakeFollower(feed, chance, "Filed")]
    while changes.number < number:
        changes.change()
        for follower in followers:
            if chance.randrange(3) == 0:
                follower.step()
        # The outages last for some changes.
        if chance.randrange(60) == 0:
            feed.is_down = True
        elif feed.is_down and chance.randrange(10) == 0:
            feed.restart()
        if chance.randrange(10) == 0:
            feed.is_cut_off = chance.randrange(6) == 0
        if chance.randrange(100) == 0:
            feed.prune()
        if changes.number % 25 == 0:
            if feed.is_down:
                feed.restart()
            for follower in followers:
                follower.check(mailbox.read(), changes.copied)
        found = [one for follower in followers for one in follower.found]
        if found:
            return found, changes.number
    return [], changes.number


def main(seed):
    """Prints a line for each defect. Returns whether the bench found each of them, and nothing
    without a defect."""
    started = time.monotonic()
    passed = True
    for defect in [None, *fake.DEFECTS]:
        found, number = run(seed, defect)
        same = run(seed, defect) == (found, number)
        passed &= same and bool(found) == (defect is not None)
        text = f"change {number}: {found[0][0]}: {found[0][1]}" if found else "nothing found"
        print(f"{defect or 'no defect':22}{text}{'' if same else ' (not deterministic)'}")
    print(f"{len(fake.DEFECTS)} defects, seed {seed}, {time.monotonic() - started:.1f} s: "
          f"{'passed' if passed else 'FAILED'}")
    return passed


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 1) else 1)
