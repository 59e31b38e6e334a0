"""Common code for modules in Python: requests, failures, and the two functions of the contract, which are created from a list of routes.

The host's interfaces are parameters, so that tests can use fake ones.
"""

import json
import re

from componentize_py_types import Err
from wit_world.exports.module import (
    Accepted,
    Access_Credentials,
    Body_Bytes,
    BodyForm,
    Manifest,
    Response,
    Route,
)
from wit_world.imports import types

SUCCESS = {"success": True}


class Failure(Exception):
    """A response that is not a success: `{"error": text, "code": code}` with a status.

    `code` is for programs, in lower-case words that `_` joins, and `text` is for people.
    """

    def __init__(self, status, code, text, headers=()):
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.headers = headers


class Created:
    """A response with the status 201."""

    def __init__(self, value):
        self.value = value


def scoped(scope, *, oauth=False):
    """Also allows API tokens with a scope, and OAuth access tokens if `oauth` is set."""
    tokens = ["api-token", "oauth"] if oauth else ["api-token"]
    return Access_Credentials([Accepted("session", None), *(Accepted(kind, scope) for kind in tokens)])


# Allows web sessions only.
SESSION = Access_Credentials([Accepted("session", None)])


class Routes:
    """A module as a list of routes, each with its action.

    `host` contains the imported interfaces and is the first argument of each action. The interface `caller` is required.
    """

    def __init__(self, host, name, version, description):
        self._host = host
        self._name = name
        self._version = version
        self._description = description
        self._routes = []
        self._actions = {}

    def get(self, *route, **more):
        self._add("GET", *route, **more)

    def post(self, *route, **more):
        self._add("POST", *route, **more)

    def patch(self, *route, **more):
        self._add("PATCH", *route, **more)

    def delete(self, *route, **more):
        self._add("DELETE", *route, **more)

    def _add(self, method, path, operation, action, access=SESSION, bucket="modules", max_body=0):
        """Adds a route. By default it requires a web session and counts towards the rate limit `modules`. `bucket` is a key of `[limits]`."""
        route = Route(
            method, path, operation, access, bucket, max_body, BodyForm.BYTES, blob_fields=[], deadline=30_000, options=[]
        )
        self._routes.append(route)
        self._actions[operation] = action

    def manifest(self):
        """Returns the manifest, with which the module describes itself to the host."""
        return Manifest(self._name, self._version, self._routes, json.dumps(self._description), options=[])

    def serve(self, operation, request):
        """Serves one request. Any exception except a failure is a bug of the module. The exception ends the request, and the host logs it."""
        try:
            answer = self._actions[operation](self._host, Request(request))
        except Failure as failure:
            return _failure(failure)
        except Err as refused:
            return _failure(_failed(_cause(refused.value), self._host))
        if isinstance(answer, Created):
            return _answer(201, answer.value)
        return _answer(200, answer)


class Handlers:
    """The handlers of a module that acts without a request. The component must export the interface `handlers`.

    `events` are sets of events: pairs of a list of types, empty for all types, and the role of the folders or None. `on_event`
    handles the events of all sets: its arguments are `host` and an event, whose `data` is JSON. `timers` are tuples of a name,
    an interval in seconds or a cron expression, and an action with the argument `host`. A function returns None if the call is
    done, `retry(seconds)` or `pause(text)`.
    """

    def __init__(self, host, events=(), on_event=None, timers=()):
        # The bindings exist only if the component exports the interface.
        from wit_world.exports import handlers

        self._wit = handlers
        self._host = host
        self._events = events
        self._on_event = on_event
        self._timers = timers

    def retry(self, seconds):
        """The host repeats the call after this time."""
        return self._wit.Outcome_Retry(seconds)

    def pause(self, text):
        """The host pauses the module for the mailbox. The text is for the operator."""
        return self._wit.Outcome_Failed(text)

    def subscriptions(self):
        """Returns the events and the timers for the host."""
        events = [self._wit.EventSubscription(list(types), role) for types, role in self._events]
        timers = [
            self._wit.Timer(name, when if isinstance(when, int) else None, when if isinstance(when, str) else None)
            for name, when, _ in self._timers
        ]
        return self._wit.SubscriptionSet(events, timers)

    def event(self, event):
        """Handles an event."""
        return self._outcome(lambda: self._on_event(self._host, event))

    def timer(self, name):
        """Handles a timer."""
        [action] = [action for timer, _, action in self._timers if timer == name]
        return self._outcome(lambda: action(self._host))

    def _outcome(self, act):
        """Calls a function.

        If an object no longer exists, the call is done. If a message has another version, the call is repeated at once. After a
        temporary failure, it is tried again in a minute.
        """
        try:
            return act() or self._wit.Outcome_Done()
        except Err as refused:
            error = _cause(refused.value)
            if isinstance(error, types.Error_NotFound):
                return self._wit.Outcome_Done()
            if type(error).__name__.endswith("_VersionMismatch"):
                return self.retry(1)
            problem = getattr(error, "value", None)
            return self.retry(60) if problem is None else self.pause(problem.text)


def _cause(error):
    """Returns the error that an error of a single function contains, for example of `set_flags`, or the error itself."""
    return error.value if type(error).__name__.endswith("_Failed") else error


def _failure(failure):
    return _answer(failure.status, {"error": failure.text, "code": failure.code}, failure.headers)


def _answer(status, value, headers=()):
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(status, [*headers, ("content-type", "application/json")], Body_Bytes(body.encode()))


def _failed(error, host):
    """Converts a capability's error to a failure for the client."""
    match error:
        case types.Error_NotFound():
            return Failure(404, "not_found", "Not found")
        case types.Error_Denied(problem):
            return Failure(403, problem.code, problem.text)
        case types.Error_Invalid(problem) | types.Error_Rejected(problem):
            return Failure(400, problem.code, problem.text)
        case types.Error_Conflict(problem):
            return Failure(409, problem.code, problem.text)
        case types.Error_TooLarge(problem):
            return Failure(413, problem.code, problem.text)
        case types.Error_CredentialRefused():
            if host.caller.current().kind == "session":
                return Failure(401, "mail_session_expired", "Mail session expired, please log in again")
            return Failure(401, "mail_credential_refused", "This credential is no longer valid for mail access")
        case types.Error_Unavailable():
            text = "Mail server is unavailable, please try again in a moment"
            return Failure(503, "mail_server_unavailable", text, [("retry-after", "2")])
        case types.Error_OutcomeUnknown():
            text = "The operation was begun and its outcome is not known; check before you repeat it"
            return Failure(500, "outcome_unknown", text)
        case types.Error_OverQuota():
            return Failure(507, "mailbox_full", "The mailbox is full")
        case _:
            return Failure(500, "internal_error", "The operation could not be completed")


class Request:
    """A request as an action receives it."""

    def __init__(self, request):
        self._request = request

    def query(self, name):
        """Returns the first value of a query parameter."""
        return next((value for key, value in self._request.query if key == name), None)

    def number(self, name):
        """Returns a segment of the path as a number, or None if it does not consist of digits or has more digits than any number of the contract."""
        text = next((value for key, value in self._request.path if key == name), "")
        return int(text) if re.fullmatch("0*[0-9]{1,20}", text) else None

    def json(self):
        """Returns the body, which must be a JSON object."""
        try:
            # The body is decoded first, because the JSON parser would guess the encoding of bytes.
            value = json.loads(self._request.body.value.decode(), parse_constant=_no_number)
            # Half of a surrogate pair is not valid text.
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise Failure(400, "invalid_json_body", "Invalid JSON body") from None
        if not isinstance(value, dict):
            raise Failure(400, "invalid_field", "The body must be an object")
        return Fields(value)


def _no_number(name):
    raise ValueError(f"{name} is not JSON")


class Fields:
    """The fields of a JSON object. A field with the value null counts as absent. A field of another type causes a failure that names the field."""

    _WORDS = {str: "a string", bool: "a boolean", int: "an integer"}

    def __init__(self, fields):
        self._fields = fields

    def field(self, name, kind):
        """Returns a field's value, or None if it is absent."""
        value = self._fields.get(name)
        # `True` is an instance of `int`.
        if value is not None and type(value) is not kind:
            raise Failure(400, "invalid_field", f"{name} must be {self._WORDS[kind]}")
        return value

    def __contains__(self, name):
        return name in self._fields

    def value(self, name):
        """Returns a field of any type, or None if it is absent or null."""
        return self._fields.get(name)
