"""A mailbox in memory with a feed, into which defects can be planted. It tests the bench."""

import dataclasses

from events import Event

# The defects, each with a description.
DEFECTS = {
    "lost-after-reconnect": "the first event after a reconnection is lost",
    "lost-while-down": "changes while the feed is down are never reported",
    "duplicate": "the event before the cursor is sent again after a reconnection",
    "reordered": "two events of a page are exchanged",
    "not-visible": "a created message cannot be read yet when its event arrives",
    "old-path": "events of messages have the folder's path before it was renamed",
    "subfolders": "a renamed folder takes no subfolders with it",
    "rename-as-deletion": "a renamed folder is deleted and created, without its messages",
    "flags-merged": "an event has the union of the old and the new flags",
    "flag-removal": "the removal of a flag is not reported",
    "page-limit": "the cursor of a full page skips an event",
    "uidvalidity": "a folder that was deleted and created again keeps its messages",
    "resurrected": "a deleted message is created again after a restart",
    "keyword-case": "keywords are folded to lower case",
    "move-as-creation": "a moved message is only created, with a new id",
    "move-as-new": "a moved message is deleted and created with a new id",
    "expired-cursor": "a cursor older than the log is accepted",
    "other-folder": "a feed of one folder has events of a folder whose name begins alike",
    "left-folder": "a message that leaves the folder of a feed is not reported",
    "copy-with-same-id": "a copy has the id of the original",
    "late-state": "an event shows the folder at the time of reading instead of its own",
    "collapse-keeps-first": "of several changes of flags, the first is reported",
    "outage": "deletions during an outage of the mail server are not found",
    "overflow": "a burst overflows the buffer, and the oldest events are dropped",
    "first-of-range": "of several messages expunged at once, one is reported",
    "lost-wake-up": "the last event is sent only when another change follows",
}


class Expired(Exception):
    """The cursor is older than the log."""


@dataclasses.dataclass
class Message:
    id: int
    tag: str
    flags: frozenset


class Mailbox:
    """The mailbox. Its methods are those of a backend of `changes.Changes`."""

    can_deliver = True

    def __init__(self, feed):
        self.folders = {"INBOX": []}
        self.feed = feed
        feed.mailbox = self
        self.next = 0

    def read(self):
        return {path: [(m.tag, m.flags) for m in messages]
                for path, messages in self.folders.items()}

    def reconnect(self):
        pass

    def _add(self, path, tag, flags):
        self.next += 1
        self.folders[path].append(Message(self.next, tag, flags))
        return Event("created", path, self.next, flags=flags)

    def append(self, path, tag, flags):
        self.feed.record([self._add(path, tag, flags)])

    def deliver(self, tag):
        self.append("INBOX", tag, frozenset())

    def copy(self, path, positions, to):
        originals = [self.folders[path][n] for n in positions]
        events = [self._add(to, m.tag, m.flags) for m in originals]
        if self.feed.has("copy-with-same-id"):
            for event, original in zip(events, originals):
                self.feed.ids[event.id] = self.feed.ids.get(original.id, original.id)
        self.feed.record(events)

    def move(self, path, positions, to):
        moved = [self.folders[path][n] for n in positions]
        self.folders[path] = [m for m in self.folders[path] if m not in moved]
        self.folders[to] += moved
        self.feed.record([Event("moved", to, m.id, path, m.flags) for m in moved])

    def store(self, path, positions, action, flags):
        events = []
        for n in positions:
            message = self.folders[path][n]
            new = {"+": message.flags | flags, "-": message.flags - flags, "=": flags}[action]
            if new != message.flags:
                events.append(self.feed.flags_event(path, message, new))
                message.flags = new
        self.feed.record([event for event in events if event])

    def expunge(self, path, positions):
        gone = [m for n, m in enumerate(self.folders[path])
                if n in positions or "\\Deleted" in m.flags]
        self.folders[path] = [m for m in self.folders[path] if m not in gone]
        self.feed.record([Event("deleted", path, m.id) for m in gone])

    def create(self, path):
        self.folders[path] = []
        self.feed.record([Event("folderCreated", path)])
        return True

    def rename(self, path, to):
        renamed = [one for one in self.folders if one == path or one.startswith(path + "/")]
        events = []
        for one in sorted(renamed):
            new = to + one[len(path):]
            self.folders[new] = self.folders.pop(one)
            events.append(Event("folderRenamed", new, source=one))
        self.feed.record(events)
        return True

    def delete(self, path):
        del self.folders[path]
        self.feed.record([Event("folderDeleted", path)])


class Feed:
    """The feed. A cursor is the number of an event."""

    def __init__(self, defect=None):
        assert defect is None or defect in DEFECTS, defect
        self.defect = defect
        self.mailbox = None
        self.log = []
        # The number of the first event that the log still has.
        self.first = 0
        # The ids that clients see, if they differ.
        self.ids = {}
        self.is_down = False
        self.is_cut_off = False
        self.held = None
        self.old_paths = {}
        self.last_deleted = None

    def has(self, defect):
        return self.defect == defect

    def flags_event(self, path, message, new):
        if self.has("flag-removal") and not new - message.flags:
            return None
        if self.has("flags-merged"):
            new |= message.flags
        return Event("flags", path, message.id, flags=new)

    def record(self, events):
        """Adds the events of one change to the log."""
        if self.has("lost-while-down") and self.is_down:
            return
        if self.has("outage") and self.is_cut_off:
            events = [event for event in events if event.kind != "deleted"]
        if self.has("first-of-range") and events and events[0].kind == "deleted":
            events = events[:1]
        if self.has("subfolders") and events and events[0].kind == "folderRenamed":
            events = events[:1]
        for event in events:
            visible = dataclasses.replace(event, id=self.ids.get(event.id, event.id))
            self.log += self._planted(visible, event.id)

    def _planted(self, event, id):
        """Returns what the feed reports instead of an event. `id` is the mailbox's own id."""
        if event.kind == "deleted":
            self.last_deleted = event
        if self.has("old-path"):
            if event.kind == "folderRenamed":
                self.old_paths[event.folder] = event.source
            elif event.id:
                old = self.old_paths.get(event.folder, event.folder)
                event = dataclasses.replace(event, folder=old)
        if self.has("rename-as-deletion") and event.kind == "folderRenamed":
            return [Event("folderDeleted", event.source), Event("folderCreated", event.folder)]
        if self.has("keyword-case"):
            folded = (f if f[0] == "\\" else f.lower() for f in event.flags)
            event = dataclasses.replace(event, flags=frozenset(folded))
        if event.kind == "moved" and self.defect in ("move-as-creation", "move-as-new"):
            self.ids[id] = f"{event.id}'"
            created = dataclasses.replace(event, kind="created", id=self.ids[id], source=None)
            deleted = Event("deleted", event.source, event.id)
            return [created] if self.has("move-as-creation") else [deleted, created]
        if self.has("uidvalidity"):
            held, self.held = self.held, None
            if event.kind == "folderDeleted":
                self.held = event
                return [held] if held else []
            if held and (event.kind, event.folder) == ("folderCreated", held.folder):
                return []
            return [held, event] if held else [event]
        return [event]

    def restart(self):
        """Starts the feed again after it was down."""
        self.is_down = False
        if self.has("resurrected") and self.last_deleted:
            if self.last_deleted.folder in self.mailbox.folders:
                self.record([dataclasses.replace(self.last_deleted, kind="created")])
            self.last_deleted = None

    def prune(self):
        """Deletes all old events but a few."""
        self.first = max(self.first, self.first + len(self.log) - 10)
        self.log = self.log[-10:]

    @property
    def end(self):
        return self.first + len(self.log)

    def list(self):
        """Returns the paths of the folders, the messages and the cursor."""
        messages = {self.ids.get(m.id, m.id): (path, m.flags)
                    for path, inside in self.mailbox.folders.items() for m in inside}
        return set(self.mailbox.folders), messages, self.end

    def tag(self, id):
        """Reads a message. Returns None if it does not exist."""
        if self.has("not-visible"):
            # An index has not seen the newest messages yet.
            if any(e.id == id and e.kind == "created" for e in self.log[-3:]):
                return None
        for messages in self.mailbox.folders.values():
            for message in messages:
                if self.ids.get(message.id, message.id) == id:
                    return message.tag
        return None

    def read(self, cursor, limit, folder, resumes):
        """Returns events, the cursor after them, and whether more follow."""
        if cursor < self.first:
            if not self.has("expired-cursor"):
                raise Expired
            cursor = self.first
        if self.has("overflow") and self.end - cursor > 30:
            cursor = self.end - 30
        if self.has("lost-after-reconnect") and resumes and cursor < self.end:
            cursor += 1
        if self.has("duplicate") and resumes and cursor > self.first:
            cursor -= 1
        end = self.end - (1 if self.has("lost-wake-up") else 0)
        page = []
        while cursor < end and len(page) < limit:
            event = self.log[cursor - self.first]
            cursor += 1
            event = self._of_folder(event, folder) if folder else event
            if event:
                page.append(dataclasses.replace(event, cursor=cursor))
        if self.has("page-limit") and len(page) == limit and cursor < end:
            cursor += 1
        if self.has("reordered") and len(page) > 3:
            page[1], page[2] = page[2], page[1]
        return self._collapse([self._late(event) for event in page]), cursor, cursor < end

    def _of_folder(self, event, folder):
        """Returns the event for a feed of one folder, or None."""
        is_inside = lambda path: path == folder
        if self.has("other-folder"):
            is_inside = lambda path: path.startswith(folder)
        if event.id is None:
            return None
        if event.kind != "moved":
            return event if is_inside(event.folder) else None
        if is_inside(event.folder):
            return dataclasses.replace(event, kind="created", source=None)
        if is_inside(event.source) and not self.has("left-folder"):
            return Event("deleted", event.source, event.id)
        return None

    def _late(self, event):
        if self.has("late-state") and event.kind == "created":
            for path, messages in self.mailbox.folders.items():
                if any(m.id == event.id for m in messages):
                    return dataclasses.replace(event, folder=path)
        return event

    def _collapse(self, page):
        """Reports several changes of the flags of a message in one page as one event."""
        result = []
        for event in page:
            same = [n for n, e in enumerate(result) if e.id == event.id and event.id]
            if event.kind == "flags" and same and result[same[-1]].kind == "flags":
                if not self.has("collapse-keeps-first"):
                    last = result[same[-1]]
                    result[same[-1]] = dataclasses.replace(last, flags=event.flags)
            else:
                result.append(event)
        return result
