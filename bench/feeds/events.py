"""The events of a feed, and a client's copy of a mailbox to which it applies them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Event:
    """One event. The kinds are created, flags, moved, deleted, folderCreated, folderRenamed and
    folderDeleted."""

    kind: str
    folder: str
    # The id of the message. None for an event of a folder.
    id: object = None
    # The old folder of a message or the old path of a folder.
    source: str | None = None
    # All flags of the message.
    flags: frozenset = frozenset()
    # The position after this event.
    cursor: object = None


class Copy:
    """A client's copy of a mailbox, or of one folder.

    `apply` also checks the event. In a feed without errors, each event fits what the client knows:
    a created message is new, a moved message was in the folder that it leaves, and so on.
    `accepts_deletions` is for a feed that can delete a message that it has never created."""

    def __init__(self, folder=None, accepts_deletions=False):
        self.accepts_deletions = accepts_deletions
        # The only folder of the copy. None for the complete mailbox.
        self.folder = folder
        self.folders = set() if folder is None else {folder}
        # The folder and the flags of each message, by id.
        self.messages = {}

    def replace(self, folders, messages):
        """Replaces the content after the mailbox was listed."""
        self.folders = set(folders)
        self.messages = dict(messages)

    def apply(self, event):
        """Applies an event. Returns what is wrong with the event, or None."""
        return getattr(self, "_" + event.kind)(event)

    def _created(self, event):
        known = self.messages.get(event.id)
        self.messages[event.id] = (event.folder, event.flags)
        if known:
            return f"created: message {event.id} is already known, in {known[0]}"
        return self._missing_folder(event)

    def _flags(self, event):
        known = self.messages.get(event.id)
        if known is None:
            return f"flags: message {event.id} is unknown"
        self.messages[event.id] = (known[0], event.flags)
        if known[0] != event.folder:
            return f"flags: message {event.id} is in {known[0]}, not in {event.folder}"
        return None

    def _moved(self, event):
        known = self.messages.get(event.id)
        self.messages[event.id] = (event.folder, event.flags)
        if known is None:
            return f"moved: message {event.id} is unknown"
        if known[0] != event.source:
            return f"moved: message {event.id} was in {known[0]}, not in {event.source}"
        return self._missing_folder(event)

    def _deleted(self, event):
        known = self.messages.pop(event.id, None)
        if known is None and self.accepts_deletions:
            return None
        if known is None:
            return f"deleted: message {event.id} is unknown"
        if known[0] != event.folder:
            return f"deleted: message {event.id} was in {known[0]}, not in {event.folder}"
        return None

    def _missing_folder(self, event):
        if event.folder not in self.folders:
            return f"{event.kind}: message {event.id} is in the unknown folder {event.folder}"
        return None

    def _folderCreated(self, event):
        if event.folder in self.folders:
            return f"folderCreated: {event.folder} is already known"
        self.folders.add(event.folder)
        return None

    def _folderRenamed(self, event):
        if event.source not in self.folders:
            return f"folderRenamed: {event.source} is unknown"
        if event.folder in self.folders:
            return f"folderRenamed: {event.folder} is already known"
        self.folders.remove(event.source)
        self.folders.add(event.folder)
        for id, (folder, flags) in self.messages.items():
            if folder == event.source:
                self.messages[id] = (event.folder, flags)
        return None

    def _folderDeleted(self, event):
        if event.folder not in self.folders:
            return f"folderDeleted: {event.folder} is unknown"
        self.folders.remove(event.folder)
        inside = [id for id, (folder, _) in self.messages.items() if folder == event.folder]
        for id in inside:
            del self.messages[id]
        return None
