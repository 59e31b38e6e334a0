"""A fake host for tests.

The fake host has the functions of `caller`, `mailbox` and `store` that most modules need. Each
function returns the results and raises the errors of the service's host. Add other functions that
your module needs. The service checks the access to a route; the fake host checks only the calls of
functions.
"""

import json
import re
import unicodedata
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote, urlsplit

from componentize_py_types import Err
from wit_world.exports.module import Body_Bytes, Request
from wit_world.imports import types
from wit_world.imports.caller import Identity
from wit_world.imports.mailbox import Address, Listing, PageStart_Cursor, Summary

_SCOPES = ["mail:read", "mail:send", "mail:write", "aliases:read", "aliases:write", "profile:read"]

# The conditions of `list_messages`.
_FILTERS = {
    "unread": lambda message: "\\Seen" not in message.flags,
    "flagged": lambda message: "\\Flagged" in message.flags,
}


class FakeHost:
    """Implements interfaces of the host, with accounts in memory."""

    def __init__(self):
        self._uids = 0
        self._accounts = {}
        self.caller = SimpleNamespace(current=lambda: self._caller)
        self.mailbox = SimpleNamespace(list_messages=self._list_messages)
        self.store = SimpleNamespace(
            get=self._get, set=self._set, delete=self._delete, compare_and_set=self._compare_and_set, list=self._list
        )
        self.sign_in("ada@example.test")

    def sign_in(self, address):
        """Signs in as another account, with a web session."""
        self._caller = Identity("session", address, admin=False, scopes=list(_SCOPES))

    def use_token(self, scopes):
        """Changes the credential to an API token with these scopes, for example `["mail:read"]`."""
        self._caller = replace(self._caller, kind="api-token", scopes=[scope for scope in _SCOPES if scope in scopes])

    def sign_out(self):
        """Signs out. Calls then have no caller, as in a public route."""
        self._caller = Identity("anonymous", "", admin=False, scopes=[])

    def deliver(self, sender="grace@example.org", to=None, subject="", text="", flags=(), date=1_795_161_600_000):
        """Delivers a message to the caller's inbox and returns its id."""
        self._uids += 1
        inbox = self._account().inbox
        inbox.append(
            Summary(
                uid=self._uids,
                seq=len(inbox) + 1,
                from_=[_address(sender)],
                to=[_address(one) for one in ([self._caller.address] if to is None else to)],
                subject=subject,
                date=date,
                flags=list(flags),
                size=len(subject) + len(text),
                preview=" ".join(text.split())[:256],
                thread_id=f"thread{self._uids}",
            )
        )
        return self._uids

    def _account(self, scope=None):
        """Returns the caller's account, or raises an error if there is no caller or the scope is missing."""
        if self._caller.address == "":
            raise Err(types.Error_Denied(types.Problem("no_caller", "There is no caller")))
        if scope is not None and scope not in self._caller.scopes:
            text = f'This credential is missing the "{scope}" scope'
            raise Err(types.Error_Denied(types.Problem("missing_scope", text)))
        return self._accounts.setdefault(self._caller.address, SimpleNamespace(inbox=[], values={}))

    def _list_messages(self, query):
        inbox = self._account("mail:read").inbox
        _check(1 <= query.limit <= 100, "invalid_paging_parameters", "limit must be between 1 and 100")
        for name in query.filters:
            _check(name in _FILTERS, "invalid_field", f'There is no filter "{name}"')
        if query.folder != "INBOX":
            raise Err(types.Error_NotFound())
        matching = [message for message in inbox[::-1] if all(_FILTERS[name](message) for name in query.filters)]
        prefix = f"{','.join(sorted(query.filters))} "
        if isinstance(query.start, PageStart_Cursor):
            seq = query.start.value.removeprefix(prefix)
            _check(query.start.value.startswith(prefix) and seq.isdecimal(), "invalid_cursor", "Invalid cursor")
            rest = [message for message in matching if message.seq < int(seq)]
        else:
            rest = matching[query.start.value :]
        page = rest[: query.limit]
        return Listing(page, len(matching), f"{prefix}{page[-1].seq}" if len(rest) > query.limit else None)

    def _values(self, key):
        """Returns the caller's values, or raises an error if the key is not valid."""
        values = self._account().values
        control = any(unicodedata.category(char) == "Cc" for char in key)
        valid = 1 <= len(key.encode()) <= 256 and not control
        _check(valid, "store_key_invalid", "A key is 1 to 256 bytes without control characters")
        return values

    def _get(self, key):
        return self._values(key).get(key)

    def _set(self, key, value):
        values = self._values(key)
        if len(value) > 65_536:
            problem = types.Problem("store_value_too_large", "A value is at most 65536 bytes")
            raise Err(types.Error_TooLarge(problem))
        values[key] = value

    def _delete(self, key):
        self._values(key).pop(key, None)

    def _compare_and_set(self, key, expected, value):
        if self._get(key) != expected:
            return False
        if value is None:
            self._delete(key)
        else:
            self._set(key, value)
        return True

    def _list(self, prefix, after, limit):
        values = self._account().values
        _check(1 <= limit <= 1000, "invalid_paging_parameters", "limit must be 1 to 1000")
        # The order of code points is the order of bytes in UTF-8.
        keys = sorted(values)
        return [key for key in keys if key.startswith(prefix) and (after is None or key > after)][:limit]


def _check(valid, code, text):
    if not valid:
        raise Err(types.Error_Invalid(types.Problem(code, text)))


def _address(text):
    """Parses `address` or `Name <address>`."""
    name, bracket, address = text.removesuffix(">").rpartition("<")
    return Address(name.strip(), address) if bracket else Address("", text)


class Service:
    """Serves a module's routes: `Service(create(host)).get("/api/v1/notes/hello")` returns the status and the JSON."""

    def __init__(self, routes):
        self._module = routes
        manifest = routes.manifest()
        self._routes = manifest.routes
        paths = json.loads(manifest.description)["paths"]
        for route in manifest.routes:
            described = paths.get(route.path, {}).get(route.method.lower(), {})
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
            if route.method != method or path is None:
                continue
            if len(content) > route.max_body:
                return 413, {"error": "The body is too large", "code": "body_too_large"}
            request = Request("test", path, parse_qsl(url.query, keep_blank_values=True), [], Body_Bytes(content), [])
            response = self._module.serve(route.operation, request)
            return response.status, json.loads(response.body.value)
        return 404, {"error": "There is no such route", "code": "route_not_found"}


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
