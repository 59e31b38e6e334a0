"""A fake host for tests.

The fake host has the functions of `caller`, `mailbox` and `store` that most modules need. Add other functions that your module needs. The service checks
the access to a route; the fake host does not.
"""

import json
import re
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote, urlsplit

from componentize_py_types import Err
from wit_world.exports.module import Body_Bytes, Request
from wit_world.imports import types
from wit_world.imports.caller import Identity, Kind
from wit_world.imports.mailbox import Address, Listing, Summary


class FakeHost:
    """Implements interfaces of the host, with accounts in memory."""

    def __init__(self):
        self._address = "ada@example.test"
        self._uids = 0
        self._accounts = {}
        self.caller = SimpleNamespace(current=self._current)
        self.mailbox = SimpleNamespace(list_messages=self._list_messages)
        self.store = SimpleNamespace(get=self._get, set=self._set, delete=self._delete, list=self._list)

    def sign_in(self, address):
        """Signs in as another account."""
        self._address = address

    def deliver(self, sender="grace@example.org", subject="", preview="", flags=()):
        """Delivers a message to the caller's inbox and returns its id."""
        self._uids += 1
        inbox = self._account().inbox
        inbox.append(
            Summary(
                uid=self._uids,
                seq=len(inbox) + 1,
                from_=[Address("", sender)],
                to=[Address("", self._address)],
                subject=subject,
                date=1_700_000_000_000,
                flags=list(flags),
                size=1000,
                preview=preview,
                thread_id=f"thread{self._uids}",
            )
        )
        return self._uids

    def _account(self):
        return self._accounts.setdefault(self._address, SimpleNamespace(inbox=[], values={}))

    def _current(self):
        return Identity(Kind.SESSION, self._address, admin=False, scopes=[])

    def _list_messages(self, folder, page):
        if folder != "INBOX":
            raise Err(types.Error_NotFound())
        inbox = self._account().inbox
        return Listing(inbox[::-1][page.offset : page.offset + page.limit], len(inbox))

    def _get(self, key):
        return self._account().values.get(key)

    def _set(self, key, value):
        if len(value) > 65_536:
            raise Err(types.Error_TooLarge("a value has at most 65,536 bytes"))
        self._account().values[key] = value

    def _delete(self, key):
        self._account().values.pop(key, None)

    def _list(self, prefix, after, limit):
        keys = sorted(self._account().values)
        return [key for key in keys if key.startswith(prefix) and (after is None or key > after)][:limit]


class Service:
    """Serves a module's routes: `Service(create(host)).get("/api/v1/notes/hello")` returns the status and the JSON."""

    def __init__(self, routes):
        self._module = routes
        manifest = routes.manifest()
        self._routes = manifest.routes
        paths = json.loads(manifest.description)["paths"]
        for route in manifest.routes:
            described = paths.get(route.path, {}).get(route.method.name.lower(), {})
            # The service rejects a module if a route has no rate limit, or if the routes and the
            # API description differ.
            assert route.bucket, f"{route.path} has no rate limit"
            assert described.get("operationId") == route.operation, f"the description has no operation {route.operation}"

    def get(self, target):
        return self._call("GET", target)

    def post(self, target, body=None):
        return self._call("POST", target, body)

    def put(self, target, body=None):
        return self._call("PUT", target, body)

    def patch(self, target, body=None):
        return self._call("PATCH", target, body)

    def delete(self, target):
        return self._call("DELETE", target)

    def _call(self, method, target, body=None):
        url = urlsplit(target)
        content = b"" if body is None else json.dumps(body).encode()
        for route in self._routes:
            path = _segments(route.path, url.path)
            if route.method.name != method or path is None:
                continue
            if len(content) > route.max_body:
                return 413, {"error": "The body is too large"}
            request = Request("test", path, parse_qsl(url.query, keep_blank_values=True), [], Body_Bytes(content), [])
            response = self._module.serve(route.operation, request)
            return response.status, json.loads(response.body.value)
        return 404, {"error": "There is no such route"}


def _segments(pattern, path):
    """Returns the values of the named segments, or None if the path does not match the route."""
    names, values = pattern.split("/"), path.split("/")
    if len(names) != len(values):
        return None
    found = []
    for name, value in zip(names, values):
        if re.fullmatch(r"\{.*\}", name):
            found.append((name[1:-1], unquote(value)))
        elif name != value:
            return None
    return found
