"""The actions of the routes. An action receives the host's interfaces and the request, and returns the JSON of the response. An exception becomes
a failure response (latchmail.py). The host decides which names are valid and who owns each address.
"""

import re
import unicodedata
from datetime import UTC, datetime, timedelta

from componentize_py_types import Err
from latchmail import SUCCESS, Created, Failure
from name import pronounceable
from wit_world.imports.aliases import AliasChange, Expiry_At, Expiry_Never
from wit_world.imports.types import Error_Conflict, Error_Invalid, Error_NotFound, Error_TooLarge

# The error message if the caller has no alias with this id.
MISSING = "Alias not found or not owned by you"

# The maximum number of random names that are tried. A name has 64 random bits, so repeated
# collisions indicate a fault.
ATTEMPTS = 3

# The maximum length of a note, in characters.
MAX_NOTE = 200

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A time in the format of RFC 3339.
TIME = re.compile(
    "([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.]([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def list_aliases(host, _request):
    return {"aliases": [listed(alias) for alias in host.aliases.list()]}


def create_alias(host, request):
    body = request.json()
    domain, name = body.field("domain", str), body.field("name", str)
    if not domain:
        raise Failure(400, "domain_required", "domain is required")
    try:
        made = random(host, domain) if name is None else host.aliases.create(name, domain)
    except Err as refused:
        match refused.value:
            case Error_Invalid(problem) | Error_Conflict(problem):
                raise Failure(400, problem.code, problem.text) from None
            case Error_TooLarge(problem):
                raise Failure(409, problem.code, problem.text) from None
            case _:
                raise
    return Created({"alias": made.address, "id": made.id, **details(made)})


def list_alias_domains(host, _request):
    return {"domains": [{"domain": domain} for domain in host.aliases.domains()]}


def check_alias(host, request):
    name, domain = request.query("name"), request.query("domain")
    if not name or not domain:
        raise Failure(400, "name_and_domain_required", "name and domain query params required")
    try:
        host.aliases.check(name, domain)
    except Err as refused:
        match refused.value:
            case Error_Invalid(problem) | Error_Conflict(problem) | Error_TooLarge(problem):
                return {"available": False, "error": problem.text}
            case _:
                raise
    return {"available": True}


def update_alias(host, request):
    alias = named(request)
    changes = change(request)
    changed = known(lambda: host.aliases.update(alias, changes))
    return {**SUCCESS, **details(changed)}


def delete_alias(host, request):
    alias = named(request)
    known(lambda: host.aliases.delete(alias))
    return SUCCESS


def named(request):
    """Returns the alias id in the path. Responds with 400 unless the id is from 1 to 2^53 - 1."""
    number = request.number("id")
    if number is None or not 1 <= number < 1 << 53:
        raise Failure(400, "invalid_alias_id", "Invalid alias ID")
    return number


def change(request):
    """Returns the changes in the body.

    A body without a known field has the same error as an invalid `active`, which was the only field of the first version of this route.
    """
    try:
        body = request.json()
    except Failure:
        body = {}
    is_empty = not any(name in body for name in ("active", "note", "expiresAt"))
    if is_empty or ("active" in body and not isinstance(body.value("active"), bool)):
        raise Failure(400, "active_required", "active (boolean) is required")
    return AliasChange(
        active=body.value("active"),
        note=changed_note(body.value("note")) if "note" in body else None,
        expiry=expiry(body.value("expiresAt")) if "expiresAt" in body else None,
    )


def changed_note(note):
    """Returns the text of a note. An empty text removes the note."""
    is_valid = isinstance(note, str) and len(note) <= MAX_NOTE and not any(unicodedata.category(one) == "Cc" for one in note)
    if note is not None and not is_valid:
        raise Failure(400, "invalid_alias_note", "note must be at most 200 characters without control characters")
    return note or ""


def expiry(expires_at):
    """Returns when an alias expires."""
    if expires_at is None:
        return Expiry_Never()
    at = milliseconds(expires_at) if isinstance(expires_at, str) else None
    if at is None:
        raise Failure(400, "invalid_expiry", "expiresAt must be a time such as 2026-11-20T08:00:00Z")
    return Expiry_At(at)


def milliseconds(text):
    """Returns a time in the format of RFC 3339 in milliseconds since the epoch, or None if the text is not such a time."""
    parts = TIME.fullmatch(text)
    if parts is None:
        return None
    *date, fraction, sign, hours, minutes = parts.groups()
    hours, minutes = int(hours or 0), int(minutes or 0)
    if hours > 23 or minutes > 59:
        return None
    try:
        time = datetime(*map(int, date), tzinfo=UTC)
    except ValueError:
        return None
    offset = timedelta(hours=hours, minutes=minutes)
    since = time - EPOCH - (-offset if sign == "-" else offset)
    return since // timedelta(milliseconds=1) + int((fraction or "")[:3].ljust(3, "0"))


def known(ask):
    """Calls a function that needs an existing alias. Responds with 404 if the caller has no alias with this id."""
    try:
        return ask()
    except Err as refused:
        if isinstance(refused.value, Error_NotFound):
            raise Failure(404, "alias_not_found", MISSING) from None
        raise


def random(host, domain):
    """Creates an alias with a random name."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return host.aliases.create(pronounceable(), domain)
        except Err as refused:
            if attempt == ATTEMPTS or not isinstance(refused.value, Error_Conflict):
                raise


def listed(alias):
    told = {"id": alias.id, "address": alias.address, "active": alias.active}
    for name, instant in (("created", alias.created_at), ("modified", alias.modified_at)):
        if instant is not None:
            told[name] = datetime.fromtimestamp(instant // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return {**told, **details(alias)}


def details(alias):
    """Returns the fields of an alias that all responses have."""
    return {
        "note": alias.note or None,
        "expiresAt": iso8601(alias.expires_at),
        "lastReceivedAt": iso8601(alias.last_received_at),
        "received": alias.received,
    }


def iso8601(instant):
    """Formats milliseconds since the epoch in UTC as `2026-11-20T08:00:00.000Z`. Returns None if there is no time."""
    if instant is None:
        return None
    time = EPOCH + timedelta(milliseconds=instant)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
