"""Keeps a copy of a mailbox: the folders, and the numbers and flags of their messages.

Usage: LATCHMAIL_TOKEN=... python3 follow.py http://127.0.0.1:8080

Prints the copy as one line of JSON, first after the listing and then after each change. The token
needs the scope mail:read. The program needs only the standard library of Python 3.10.
"""

import http.client
import json
import os
import sys
import time
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

BASE = sys.argv[1].rstrip("/") + "/api/v1/mail"
TOKEN = os.environ["LATCHMAIL_TOKEN"]
# Without events, the service sends its cursor every 20 seconds.
TIMEOUT = 60


class Outdated(Exception):
    """The copy cannot be continued, so the mailbox must be listed again."""


def get(path, headers=None):
    """Returns the open response. 410: the cursor has expired. 404: a folder was renamed."""
    request = Request(BASE + path, headers={"Authorization": f"Bearer {TOKEN}", **(headers or {})})
    try:
        return urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code in (404, 410):
            raise Outdated from error
        raise


def get_json(path):
    with get(path) as response:
        return json.load(response)


def folder_paths():
    return {folder["id"]: folder["path"] for folder in get_json("/folders")["folders"]}


def messages_in(path):
    cursor = {}
    while cursor is not None:
        query = urlencode({"limit": 100, **cursor})
        page = get_json(f"/folders/{quote(path, safe='')}/messages?{query}")
        yield from page["messages"]
        cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else None


class Copy:
    """A copy of the mailbox. A program that stores it writes it together with the cursor."""

    def __init__(self):
        # The cursor comes first: the stream repeats what changes during the listing.
        self.cursor = get_json("/changes")["cursor"]
        self.folders = folder_paths()
        self.messages = {}
        for folder, path in self.folders.items():
            for message in messages_in(path):
                self.messages[message["uid"]] = (folder, message["flags"])
        if folder_paths() != self.folders:
            raise Outdated

    def apply(self, change):
        """Applies a change. To apply a change twice has no further effect."""
        match change["type"]:
            case "folderCreated" | "folderRenamed":
                self.folders[change["id"]] = change["folder"]
            case "folderDeleted":
                self.folders.pop(change["id"], None)
                rest = self.messages.items()
                self.messages = {uid: one for uid, one in rest if one[0] != change["id"]}
            case "created" | "flags" | "moved":
                folder = self.folder_at(change["folder"])
                self.messages[change["uid"]] = (folder, change["flags"])
            case "deleted":
                self.messages.pop(change["uid"], None)

    def folder_at(self, path):
        for folder, known in self.folders.items():
            if known == path:
                return folder
        raise Outdated

    def print(self):
        content = {path: {} for path in sorted(self.folders.values())}
        for uid, (folder, flags) in sorted(self.messages.items()):
            content[self.folders[folder]][uid] = sorted(flags)
        print(json.dumps(content), flush=True)


def blocks(response):
    """Yields the fields of each block of a stream. Each field of this service is one line."""
    fields = {}
    for line in response:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name or value:
            fields[name] = value
        else:
            yield fields
            fields = {}


def follow(copy):
    """Applies events until the stream ends. Returns the reason."""
    with get("/events", {"Last-Event-ID": copy.cursor}) as response:
        for block in blocks(response):
            if block.get("event") == "end":
                return json.loads(block["data"])["reason"]
            if block.get("event", "").startswith(("message.", "folder.")):
                copy.apply(json.loads(block["data"])["data"])
                copy.print()
            copy.cursor = block.get("id", copy.cursor)
    return "interrupted"


def main():
    copy, wait = None, 0.5
    while True:
        before = copy and copy.cursor
        try:
            if copy is None:
                copy = Copy()
                copy.print()
            reason = follow(copy)
            if reason in ("rights_changed", "cursor_expired"):
                copy = None
            elif reason not in ("shutdown", "interrupted"):
                sys.exit(f"the stream has ended: {reason}")
        except Outdated:
            copy = None
        except HTTPError as error:
            if error.code != 429 and error.code < 500:
                sys.exit(f"the service refuses the request: {error}: {error.read().decode()}")
        except (OSError, http.client.HTTPException) as error:
            print(f"the connection failed: {error!r}", file=sys.stderr)
        # The waits grow until the stream continues.
        wait = 1 if copy and copy.cursor != before else min(2 * wait, 60)
        time.sleep(wait)


if __name__ == "__main__":
    main()
