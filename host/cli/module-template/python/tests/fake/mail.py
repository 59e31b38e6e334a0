"""The folders and messages of an account of the fake host, and their changes."""

import hashlib
import re
from copy import deepcopy
from dataclasses import dataclass, field, replace

from componentize_py_types import Err
from wit_world.imports import mailbox, types
from wit_world.imports.mailbox import ChangedFolder, ChangedMessage, FlagAction, MessageDisposal

from .errors import check, is_line
from .message import compose, write

_ROLES = ["\\Inbox", "\\Sent", "\\Drafts", "\\Archive", "\\Junk", "\\Trash"]
_SETTABLE = {flag.lower(): flag for flag in ("\\Seen", "\\Answered", "\\Flagged", "\\Draft")}
_KEYWORD = r"[!#$&'+-\[^-z|}~]{1,100}"


@dataclass
class Folder:
    id: str
    path: str
    role: str | None = None


@dataclass
class Message:
    uid: int
    folder: str
    detail: mailbox.Detail
    contents: list
    raw: bytes | None = None
    # The number of the message's arrival in its folder. Later arrivals have higher numbers.
    arrival: int = 0
    # The folder that contained the message before its last move.
    previous: Folder | None = None


@dataclass
class Mail:
    folders: list = field(default_factory=list)
    # The messages of all folders, in the order of their arrival in their folder.
    messages: list = field(default_factory=list)
    changes: list = field(default_factory=list)
    imports: dict = field(default_factory=dict)
    quota: mailbox.Quota = field(
        default_factory=lambda: mailbox.Quota(mailbox.QuotaUsage(None, None), mailbox.QuotaUsage(None, None))
    )
    _uids: int = 0
    _arrivals: int = 0
    _folder_ids: int = 0

    def __post_init__(self):
        for role in _ROLES:
            self._add_folder("INBOX" if role == "\\Inbox" else role[1:], role)
        self.changes.clear()

    def has(self, path):
        return any(one.path == path for one in self.folders)

    def folder(self, path):
        """Returns a folder, or raises an error if it does not exist."""
        return _first(one for one in self.folders if one.path == path)

    def within(self, path):
        """Returns the messages of a folder, oldest first."""
        return [one for one in self.messages if one.folder == path]

    def find(self, uid):
        """Returns a message, or raises an error if it does not exist."""
        return _first(one for one in self.messages if one.uid == uid)

    def known(self, uids):
        """Returns the messages that exist, in the order of their numbers and without duplicates."""
        check(len(uids) <= 1000, "too_many_messages", "At most 1000 messages at once", types.Error_TooLarge)
        return sorted((one for one in self.messages if one.uid in uids), key=lambda one: one.uid)

    def with_message_id(self, message_id):
        """Returns the messages with a Message-ID."""
        return [one for one in self.messages if one.detail.message_id == message_id]

    def put(self, folder, letter):
        """Stores a message, and creates its folder if the folder does not exist."""
        if not self.has(folder):
            self._add_folder(folder)
        threads = {one.detail.message_id: one.detail.summary.thread_id for one in self.messages}
        self._uids += 1
        thread_id = threads.get(letter.in_reply_to, f"thread{self._uids}")
        return self._store(Message(self._uids, folder, *compose(self._uids, thread_id, letter)))

    def _store(self, message):
        self._arrive(message)
        self.changes.append(mailbox.Change_Created(_changed(message)))
        return message

    def _arrive(self, message):
        self._arrivals += 1
        message.arrival = self._arrivals
        self.messages.append(message)

    def summary(self, message):
        return replace(deepcopy(message.detail.summary), seq=self.within(message.folder).index(message) + 1)

    def detail(self, uid):
        """Returns a message in the form of the contract."""
        message = self.find(uid)
        version = self.versions(message).state
        return replace(message.detail, summary=self.summary(message), folder=message.folder, version=version)

    def raw(self, message):
        return write(message.detail, message.contents) if message.raw is None else message.raw

    def versions(self, message):
        summary = message.detail.summary
        state = repr((message.uid, message.folder, sorted(summary.flags), summary.thread_id))
        return mailbox.MessageVersion(hashlib.sha256(state.encode()).hexdigest(), f"content{message.uid}")

    def set_flags(self, messages, flags, action):
        given = settable(flags)
        check(given or action == FlagAction.REPLACE, "invalid_flag_data", "The flags are empty")
        keeps = {
            FlagAction.ADD: lambda _: True,
            FlagAction.REMOVE: lambda flag: flag not in given,
            FlagAction.REPLACE: lambda flag: flag == "\\Deleted",
        }
        for message in messages:
            kept = [flag for flag in message.detail.summary.flags if keeps[action](flag)]
            added = [] if action == FlagAction.REMOVE else given
            message.detail.summary.flags = list(dict.fromkeys(kept + added))
            self.changes.append(mailbox.Change_Flags(_changed(message)))

    def move(self, messages, destination):
        path = self.folder(destination).path
        for message in messages:
            if message.folder != path:
                message.previous = self.folder(message.folder)
                message.folder = path
                self.messages.remove(message)
                self._arrive(message)
                moved = mailbox.MovedMessage(_changed(message), message.previous.path)
                self.changes.append(mailbox.Change_Moved(moved))

    def delete(self, messages):
        for message in messages:
            self.messages.remove(message)
            deleted = mailbox.DeletedMessage(message.uid, message.folder)
            self.changes.append(mailbox.Change_Deleted(deleted))

    def copy(self, messages, destination):
        path = self.folder(destination).path
        copies = []
        for message in messages:
            self._uids += 1
            detail = deepcopy(message.detail)
            detail.summary.uid = self._uids
            self._store(Message(self._uids, path, detail, message.contents, message.raw))
            copies.append(mailbox.CopiedMessage(message.uid, self._uids))
        return copies

    def trash(self, messages):
        self.move(messages, self._trash())

    def restore(self, messages):
        """Moves the messages that are in Trash to their previous folders, and returns them."""
        trash = self._trash()
        restored = [one for one in messages if one.folder == trash]
        _conflict(restored or not messages, "message_not_in_trash", "The message is not in Trash")
        for message in restored:
            previous = message.previous
            exists = previous in self.folders and previous.path != trash
            self.move([message], previous.path if exists else "INBOX")
        return restored

    def _trash(self):
        found = [one.path for one in self.folders if one.role == "\\Trash"]
        _conflict(found, "no_trash_folder", "There is no Trash folder")
        return found[0]

    def describe(self, folder):
        """Returns a folder in the form of the contract."""
        messages = self.within(folder.path)
        unseen = [one for one in messages if "\\Seen" not in one.detail.summary.flags]
        name = folder.path.split("/")[-1]
        return mailbox.Folder(folder.id, folder.path, name, "/", len(messages), len(unseen), folder.role)

    def list(self):
        """Returns all folders: first the folders with a role, then the other folders."""
        known = [one for one in self.folders if one.role]
        other = sorted((one for one in self.folders if not one.role), key=lambda one: one.path)
        return [self.describe(one) for one in known + other]

    def _add_folder(self, path, role=None):
        """Adds a folder and its missing parents."""
        self._add_parents(path)
        self._folder_ids += 1
        folder = Folder(f"folder{self._folder_ids}", path, role)
        self.folders.append(folder)
        self.changes.append(mailbox.Change_FolderCreated(ChangedFolder(path, folder.id)))
        return folder

    def _add_parents(self, path):
        parent = path.rpartition("/")[0]
        if parent and not self.has(parent):
            self._add_folder(parent)

    def create_folder(self, path):
        path = _new_path(path)
        _conflict(not self.has(path), "folder_exists", "Folder already exists")
        return self.describe(self._add_folder(path))

    def rename_folder(self, path, target):
        folder = self.folder(_canonical(path))
        old = folder.path
        renamed = [one for one in self.folders if _contains(old, one.path)]
        self._check_role(renamed)
        new = _new_path(target)
        if new == old:
            return self.describe(folder)
        _conflict(not self.has(new), "folder_exists", "Folder already exists")
        check(not _contains(old, new), "invalid_folder_path", "Invalid folder path")
        self._add_parents(new)
        for one in renamed:
            before, one.path = one.path, new + one.path[len(old) :]
            for message in self.within(before):
                message.folder = one.path
            change = mailbox.RenamedFolder(ChangedFolder(one.path, one.id), before)
            self.changes.append(mailbox.Change_FolderRenamed(change))
        return self.describe(folder)

    def delete_folder(self, path, disposal):
        folder = self.folder(_canonical(path))
        self._check_role([folder])
        messages = self.within(folder.path)
        subfolders = any(one is not folder and _contains(folder.path, one.path) for one in self.folders)
        empty = not messages and not subfolders
        _conflict(empty or disposal != MessageDisposal.REFUSE, "folder_not_empty", "Folder is not empty")
        _conflict(not subfolders, "folder_has_subfolders", "Folder has subfolders")
        if disposal == MessageDisposal.TRASH:
            self.trash(messages)
        self.messages = [one for one in self.messages if one.folder != folder.path]
        self.folders.remove(folder)
        self.changes.append(mailbox.Change_FolderDeleted(ChangedFolder(folder.path, folder.id)))

    def _check_role(self, folders):
        text = "This folder has a role and cannot be changed"
        _conflict(not any(one.role for one in folders), "folder_has_role", text)


def settable(flags):
    """Returns the flags with their canonical names, or raises an error if a client cannot set a flag."""
    found = [_SETTABLE.get(flag.lower(), flag) for flag in flags]
    valid = all(flag in _SETTABLE.values() or re.fullmatch(_KEYWORD, flag) for flag in found)
    check(valid, "invalid_flag_data", "The flags contain a flag that clients cannot set")
    return found


def _first(found):
    for one in found:
        return one
    raise Err(types.Error_NotFound())


def _conflict(valid, code, text):
    check(valid, code, text, types.Error_Conflict)


def _changed(message):
    return ChangedMessage(message.uid, message.folder, list(message.detail.summary.flags))


def _contains(parent, path):
    return f"{path}/".startswith(f"{parent}/")


def _canonical(path):
    return re.sub("^inbox(?=/|$)", "INBOX", path, flags=re.IGNORECASE)


def _new_path(path):
    """Returns the path of a new folder, or raises an error if a folder cannot have this path."""
    names = path.split("/")
    valid = not any(name in ("", ".", "..") for name in names) and not path.startswith("~") and is_line(path)
    check(valid and len(path.encode()) <= 2000, "invalid_folder_path", "Invalid folder path")
    return _canonical(path)
