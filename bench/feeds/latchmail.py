"""Follows a mailbox with Latchmail: by the stream, by requests that wait, and by a webhook."""

import http.server
import json
import queue
import threading
import time
import urllib.parse

from events import Event
from follower import CopyFollower
from service import Response, call, connect

KINDS = {"message.created": "created", "message.flags": "flags", "message.moved": "moved",
         "message.deleted": "deleted", "folder.created": "folderCreated",
         "folder.renamed": "folderRenamed", "folder.deleted": "folderDeleted"}


def event_of(change, cursor=None):
    """Returns the event of a change in the response of `GET /mail/changes`."""
    return Event(change["type"], change["folder"], change.get("uid"), change.get("from"),
                 frozenset(change.get("flags", ())), cursor)


class Reader:
    """Reads the messages whose events arrive, as an application does. A message that an event has
    created must be readable at once, unless it has left the mailbox again."""

    def __init__(self, latchmail, random, is_lazy):
        self.latchmail = latchmail
        self.random = random
        # Whether messages are read only when the follower is compared with the mailbox.
        self.is_lazy = is_lazy
        self.requests = 0
        self.subjects = {}
        # The messages that could not be read, and the names of their followers.
        self.missing = {}
        self.waiting = queue.SimpleQueue()
        self.lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def read_later(self, follower, id):
        """Reads a message in the background."""
        if id in self.subjects:
            follower.tags[id] = self.subjects[id]
        elif not self.is_lazy:
            self.waiting.put((follower, id))

    def _run(self):
        while True:
            batch = [self.waiting.get()]
            while len(batch) < 100 and not self.waiting.empty():
                batch.append(self.waiting.get())
            try:
                found = self.read({id for _, id in batch})
            except (OSError, Response):
                # The service or the mail server does not run.
                for one in batch:
                    self.waiting.put(one)
                time.sleep(0.2)
                continue
            for follower, id in batch:
                if id in found:
                    follower.tags[id] = found[id]
                else:
                    with self.lock:
                        self.missing[follower, id] = time.monotonic()

    def read(self, ids):
        """Returns the subjects of the messages that exist."""
        found = {}
        todo = sorted(ids)
        client = connect(self.random.choice(self.latchmail.hosts).base)
        while todo:
            uids = ",".join(map(str, todo[:100]))
            path = f"/api/v1/mail/messages?view=summary&uids={uids}"
            response = call(client, "GET", path, self.latchmail.token)
            self.requests += 1
            found |= {message["uid"]: message["subject"] for message in response["messages"]}
            todo = todo[100:]
        client.close()
        self.subjects |= found
        return found

    def check(self, follower):
        """Records a problem for each message that exists and could not be read before."""
        with self.lock:
            missing = [id for one, id in self.missing if one is follower]
            self.missing = {key: at for key, at in self.missing.items() if key[0] is not follower}
        present = [id for id in missing if id in follower.copy.messages]
        for id, subject in (self.read(present) if present else {}).items():
            follower.problem("not visible", f"message {id} when its event arrived")
            follower.tags[id] = subject


class LatchmailFollower(CopyFollower):
    """The part that the followers of Latchmail share."""

    def __init__(self, name, latchmail, reader, random, folder=None):
        super().__init__(name, folder)
        self.latchmail = latchmail
        self.reader = reader
        self.random = random
        self.cursor = None
        self.connection = None
        self.host = 0

    @property
    def query(self):
        """The parameter with the folder."""
        folder = self.copy.folder
        return "" if folder is None else "&folder=" + urllib.parse.quote(folder)

    def call(self, method, path, body=None):
        """Sends a request to one of the hosts. Returns the JSON of the response."""
        self.requests += 1
        if self.connection is None:
            host = self.random.choice(self.latchmail.hosts)
            self.connection = connect(host.base)
        try:
            return call(self.connection, method, path, self.latchmail.token, body)
        except OSError:
            self.connection = None
            raise

    def begin(self):
        """Returns the cursor before the mailbox is listed."""
        return self.call("GET", "/api/v1/mail/changes?" + self.query)["cursor"]

    def list(self):
        cursor = self.begin()
        folders = [one["path"] for one in self.call("GET", "/api/v1/mail/folders")["folders"]
                   if not one.get("noSelect")]
        if self.copy.folder is not None:
            folders = [self.copy.folder]
        messages = {}
        for folder in folders:
            page = 1
            while True:
                path = f"/api/v1/mail/folders/{urllib.parse.quote(folder, safe='')}/messages" \
                    f"?limit=100&page={page}"
                found = self.call("GET", path)["messages"]
                for message in found:
                    messages[message["uid"]] = (folder, frozenset(message["flags"]))
                    self.tags[message["uid"]] = message["subject"]
                if len(found) < 100:
                    break
                page += 1
        with self.lock:
            self.replace(folders, messages)
            self.cursor = cursor

    def arrived(self, event):
        """Applies an event, and reads the message."""
        self.apply(event)
        if event.kind in ("created", "moved") and event.id not in self.tags:
            self.reader.read_later(self, event.id)

    def expired(self):
        """Lists the mailbox again after the cursor has expired."""
        self.problem("expired", "the cursor has expired")
        self.resyncs += 1
        self.list()

    def settled(self):
        self.reader.check(self)


class Poll(LatchmailFollower):
    """Follows with requests that wait, in pages of random sizes."""

    def follow(self):
        limit = self.random.choice((1, 2, 5, 20, 100, 500))
        cursor = self.cursor
        path = f"/api/v1/mail/changes?since={cursor}&limit={limit}&wait=10{self.query}"
        try:
            page = self.call("GET", path)
        except Response as error:
            if error.status == 410:
                self.expired()
            else:
                self.interruptions += 1
                self.stopping.wait(0.2)
            return
        with self.lock:
            if self.cursor != cursor:
                return
            for change in page["changes"]:
                self.arrived(event_of(change))
            self.cursor = page["cursor"]


class Stream(LatchmailFollower):
    """Follows with the stream, and disconnects at random."""

    def follow(self):
        host = self.random.choice(self.latchmail.hosts)
        client = connect(host.base, 30)
        cursor = self.cursor
        headers = {"Authorization": f"Bearer {self.latchmail.token}", "Last-Event-ID": cursor}
        self.requests += 1
        try:
            client.request("GET", "/api/v1/mail/events?" + self.query, headers=headers)
            response = client.getresponse()
            if response.status == 410:
                self.expired()
            elif response.status == 200:
                self._read(response, cursor)
            else:
                self.interruptions += 1
                self.stopping.wait(0.2)
        except OSError:
            raise
        except Exception as error:
            # The connection has ended in the middle of a chunk.
            if type(error).__module__ == "http.client":
                raise ConnectionError(str(error)) from error
            raise
        finally:
            client.close()

    def _read(self, response, cursor):
        fields = {}
        while not self.stopping.is_set() and not self.must_list.is_set():
            line = response.readline().decode()
            if not line:
                return
            line = line.rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            with self.lock:
                if self.cursor != cursor:
                    # The mailbox was listed again.
                    return
                if not self._received(fields):
                    return
                cursor = self.cursor
            fields = {}
            if self.random.randrange(100) == 0:
                return

    def _received(self, fields):
        """Applies an event. Returns whether the stream continues."""
        if fields.get("event") == "end":
            reason = json.loads(fields["data"])["reason"]
            if reason == "cursor_expired":
                self.expired()
            elif reason != "shutdown":
                self.problem("end", reason)
            return False
        if "event" in fields:
            event = json.loads(fields["data"])
            if event["id"] != fields["id"] or KINDS[event["type"]] != event["data"]["type"]:
                self.problem("event", f"the fields contradict each other: {fields}")
            self.arrived(event_of(event["data"], event["id"]))
        self.cursor = fields.get("id", self.cursor)
        return True


class Webhook(LatchmailFollower):
    """Follows with a webhook. Its receiver fails, hangs, loses responses and restarts at
    random."""

    def __init__(self, name, latchmail, reader, random, port):
        super().__init__(name, latchmail, reader, random)
        self.port = port
        self.server = None
        self.webhook = None
        self.seen = set()
        self.failures = 0
        self.outages = True

    def begin(self):
        # An event that is on its way belongs to the old webhook.
        if self.webhook:
            self.call("DELETE", f"/api/v1/webhooks/{self.webhook}")
        url = f"http://127.0.0.1:{self.port}/"
        self._listen()
        made = self.call("POST", "/api/v1/webhooks", {"url": url, "payload": "ids"})
        self.webhook = made["id"]
        self.expected_path = "/"
        return None

    def _listen(self):
        if self.server:
            return
        follower = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = follower.receive(self.headers["webhook-id"], body)
                if status is None:
                    # The connection ends without a response.
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def receive(self, id, body):
        """Processes a request. Returns the status of the response, or None for no response."""
        with self.lock:
            self.requests += 1
            choice = self.random.randrange(1000)
            # At most two failures in a row, because the third wait takes half a minute.
            fails = self.outages and choice < 20 and self.failures < 2
            self.failures = self.failures + 1 if fails else 0
        if fails and choice < 8:
            return 503
        if fails and choice < 10:
            time.sleep(11)
            return 200
        if fails and choice < 14:
            return None
        event = json.loads(body)
        with self.lock:
            if id != event["id"]:
                self.problem("event", "webhook-id is not the id of the event")
            if id not in self.seen:
                self.seen.add(id)
                if event["type"] == "webhook.gap":
                    self.expired()
                elif event["type"] in KINDS:
                    self.arrived(event_of(event["data"], id))
        # The event is stored, but the response is lost, or the receiver fails.
        return None if fails and choice < 17 else 500 if fails else 200

    def follow(self):
        """Restarts the receiver from time to time."""
        if self.stopping.wait(5) or self.random.randrange(10):
            return
        server, self.server = self.server, None
        server.shutdown()
        server.server_close()
        self.interruptions += 1
        self.stopping.wait(self.random.random() * 2)
        self._listen()

    def stop(self):
        super().stop()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
