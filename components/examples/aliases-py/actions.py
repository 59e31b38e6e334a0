"""The actions of the routes. An action receives the host's interfaces and the request, and returns the JSON of the response. An exception becomes
a failure response (latchmail.py). The host decides which names are valid and who owns each address.
"""

from datetime import UTC, datetime

from componentize_py_types import Err
from latchmail import SUCCESS, Created, Failure
from name import pronounceable
from wit_world.imports.types import Error_Conflict, Error_Invalid, Error_NotFound, Error_TooLarge

# The error message if the caller has no alias with this id.
MISSING = "Alias not found or not owned by you"

# The maximum number of random names that are tried. A name has 64 random bits, so repeated
# collisions indicate a fault.
ATTEMPTS = 3


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
    return Created({"alias": made.address, "id": made.id})


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
    try:
        active = request.json().field("active", bool)
    except Failure:
        active = None
    if active is None:
        raise Failure(400, "active_required", "active (boolean) is required")
    known(lambda: host.aliases.set_active(alias, active))
    return SUCCESS


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


def known(ask):
    """Calls a function that needs an existing alias. Responds with 404 if the caller has no alias with this id."""
    try:
        ask()
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
    return told
