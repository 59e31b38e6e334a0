"""A fake host for tests.

The fake host has the functions of `aliases`, `caller`, `config`, `http-client`, `log`, `mailbox`,
`outbox`, `profile` and `store`. Each function returns the results and raises the errors of the
service's host. Add other functions that your module needs. The service checks the access to a
route; the fake host checks only the calls of functions.
"""

import json
import re
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote, urlsplit

from wit_world.exports.module import Body_Bytes, Request
from wit_world.imports import types
from wit_world.imports.caller import Identity

from .blob import Blob
from .errors import check, is_line

__all__ = ["Blob", "FakeHost", "Service"]

_SCOPES = ["mail:read", "mail:send", "mail:write", "aliases:read", "aliases:write", "profile:read"]


class FakeHost:
    """Implements interfaces of the host, with accounts in memory."""

    def __init__(self):
        self._accounts = {}
        # The settings of the module, by their keys.
        self.settings = {}
        # The lines that the module wrote to the log: pairs of a level and a message.
        self.lines = []
        # The responses of other servers, by method and URL, and the valid requests of the module.
        self.responses = {}
        self.requests = []
        # The time of the host, in milliseconds.
        self.now = 1_795_161_600_000
        self._is_handler = False
        self.caller = SimpleNamespace(current=lambda: self._caller, is_handler=lambda: self._is_handler)
        self.config = SimpleNamespace(get=self.settings.get)
        self.log = SimpleNamespace(write=lambda level, message: self.lines.append((level, message)))
        self.store = SimpleNamespace(
            get=self._get, set=self._set, delete=self._delete, compare_and_set=self._compare_and_set, list=self._list
        )
        self.sign_in("ada@example.test")

    # The bindings of an interface exist only if the module imports the interface.

    @cached_property
    def aliases(self):
        from .aliases import Aliases

        return Aliases(self)

    @cached_property
    def http_client(self):
        from .http_client import HttpClient

        return HttpClient(self)

    @cached_property
    def mailbox(self):
        from .mailbox import Mailbox

        return Mailbox(self)

    @cached_property
    def outbox(self):
        from .outbox import Outbox

        return Outbox(self)

    @cached_property
    def profile(self):
        from .profile import Profile

        return Profile(self)

    def sign_in(self, address):
        """Signs in as another account, with a web session."""
        self._caller = Identity("session", address, admin=False, scopes=list(_SCOPES))
        self._is_handler = False
        if address not in self._accounts:
            self._accounts[address] = _Account(address)

    def use_token(self, scopes):
        """Changes the credential to an API token with these scopes, for example `["mail:read"]`."""
        self._caller = replace(self._caller, kind="api-token", scopes=[scope for scope in _SCOPES if scope in scopes])
        self._is_handler = False

    def use_handler(self, scopes):
        """Makes the caller that of a handler, with these scopes."""
        self._caller = replace(self._caller, kind="session", scopes=[scope for scope in _SCOPES if scope in scopes])
        self._is_handler = True

    def sign_out(self):
        """Signs out. Calls then have no caller, as in a public route."""
        self._caller = Identity("anonymous", "", admin=False, scopes=[])
        self._is_handler = False

    def deliver(self, sender="grace@example.org", *, to=None, folder="INBOX", **values):
        """Delivers a message to the caller and returns its id. `values` are the fields of `message.Letter`."""
        from .message import Letter

        to = [self._caller.address] if to is None else to
        return self.account().mail.put(folder, Letter(sender, **{"to": to, "date": self.now, **values})).uid

    @property
    def sent(self):
        """The messages that the caller sent, oldest first."""
        return self.account().sent

    def set_quota(self, quota):
        """Sets the quota of the caller's mailbox. The fake host does not enforce the quota."""
        self.account().mail.quota = quota

    def addresses(self):
        """Returns the addresses of all accounts and aliases."""
        aliases = [alias.address for account in self._accounts.values() for alias in account.aliases]
        return [*self._accounts, *aliases]

    def account(self, scope=None):
        """Returns the caller's account, or raises an error if there is no caller or the scope is missing."""
        check(self._caller.address != "", "no_caller", "There is no caller", types.Error_Denied)
        allowed = scope is None or scope in self._caller.scopes
        text = f'This credential is missing the "{scope}" scope'
        check(allowed, "missing_scope", text, types.Error_Denied)
        return self._accounts[self._caller.address]

    def _values(self, key):
        """Returns the caller's values, or raises an error if the key is not valid."""
        values = self.account().values
        valid = 1 <= len(key.encode()) <= 256 and is_line(key)
        check(valid, "store_key_invalid", "A key is 1 to 256 bytes without control characters")
        return values

    def _get(self, key):
        return self._values(key).get(key)

    def _set(self, key, value):
        values = self._values(key)
        text = "A value is at most 65536 bytes"
        check(len(value) <= 65_536, "store_value_too_large", text, types.Error_TooLarge)
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
        values = self.account().values
        check(1 <= limit <= 1000, "invalid_paging_parameters", "limit must be 1 to 1000")
        # The order of code points is the order of bytes in UTF-8.
        keys = sorted(values)
        return [key for key in keys if key.startswith(prefix) and (after is None or key > after)][:limit]


class _Account:
    """The data of an account."""

    def __init__(self, address):
        self.address = address
        self.values = {}
        self.aliases = []
        self.sent = []
        self.uploads = {}

    @cached_property
    def mail(self):
        from .mail import Mail

        return Mail()


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
