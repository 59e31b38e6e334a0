"""Changes a mailbox, and compares followers with it."""

import bisect
import time

from compare import Identities, differences

# The number of changes between two comparisons.
INTERVAL = 100


class Bench:
    """A run of the bench. `faults` are functions that kill something, each with its number of
    runs."""

    def __init__(self, changes, followers, chance, settle, report=print):
        self.changes = changes
        self.followers = followers
        self.chance = chance
        # The time for which followers may lag behind, in seconds.
        self.settle = settle
        self.report = report
        self.divergences = {follower.name: [] for follower in followers}
        self.identities = {follower.name: Identities() for follower in followers}
        self.settle_times = {follower.name: [] for follower in followers}

    def run(self, number, rate, faults):
        """Makes this number of changes, at most `rate` per second."""
        schedule = {}
        for fault, count in faults:
            for n in self.chance.sample(range(1, number), min(count, number - 1)):
                schedule.setdefault(n, []).append(fault)
        for follower in self.followers:
            follower.start()
        self.check()
        for n in range(1, number + 1):
            began = time.monotonic()
            for fault in schedule.get(n, ()):
                fault()
            self.changes.change()
            if n % INTERVAL == 0 or n == number:
                self.check()
            elif rate:
                time.sleep(max(0, began + 1 / rate - time.monotonic()))
        for follower in self.followers:
            follower.stop()

    def check(self):
        """Compares all followers with the mailbox, as soon as they have caught up."""
        self.changes.adopt()
        state = self.changes.state
        began = time.monotonic()
        waiting = list(self.followers)
        while waiting and time.monotonic() - began < self.settle:
            for follower in list(waiting):
                if not self._differences(follower, state):
                    self.settle_times[follower.name].append(time.monotonic() - began)
                    waiting.remove(follower)
            time.sleep(0.02)
        for follower in self.followers:
            found = self._differences(follower, state)
            follower.settled()
            rows = follower.rows()[1]
            if follower.has_stable_ids:
                identities = self.identities[follower.name]
                found += identities.changes(rows, self.changes.copied)
            with follower.lock:
                found += follower.problems
                follower.problems = []
            for kind, text in found:
                self.divergences[follower.name].append((self.changes.number, kind, text))
                self.report(f"change {self.changes.number}: {follower.name}: {kind}: {text}")
            if follower in waiting:
                # Later differences are other ones.
                follower.must_list.set()

    def _differences(self, follower, state):
        folders, rows = follower.rows()
        return differences(folders, rows, follower.expected(state))

    def latencies(self, follower):
        """Returns the times from changes to their events, sorted. A change that was collapsed with
        the next change of the same message is left out, as are changes of copies."""
        journal = {}
        for at, _, tag in self.changes.journal:
            if tag not in self.changes.copied:
                journal.setdefault(tag, []).append(at)
        arrived = {}
        for at, id in follower.received:
            arrived.setdefault(follower.tags.get(id), []).append(at)
        found = []
        for tag, times in journal.items():
            for at, following in zip(times, times[1:] + [float("inf")]):
                times_of_tag = arrived.get(tag, ())
                position = bisect.bisect_left(times_of_tag, at)
                if position < len(times_of_tag) and times_of_tag[position] < following:
                    found.append(times_of_tag[position] - at)
        return sorted(found)

    def table(self):
        """Returns the result as a table in Markdown."""
        lines = ["| Follower | Divergences | p50 | p99 | Settled within | Requests "
                 "| Interrupted | Listed again |", "|---|---|---|---|---|---|---|---|"]
        for follower in self.followers:
            times = self.latencies(follower)
            percentile = lambda part: f"{1000 * times[int(part * (len(times) - 1))]:.0f} ms" \
                if times else "–"
            settled = max(self.settle_times[follower.name], default=float("nan"))
            lines.append(
                f"| {follower.name} | {len(self.divergences[follower.name])} | {percentile(0.5)} "
                f"| {percentile(0.99)} | {settled:.1f} s | {follower.requests} "
                f"| {follower.interruptions} | {follower.resyncs} |")
        return "\n".join(lines)
