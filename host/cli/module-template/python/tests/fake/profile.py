"""The interface `profile` of the fake host. An account's initial password is `Correct-Horse-7`."""

import re
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone

from wit_world.imports import types
from wit_world.imports.profile import Details, PasswordChange

from .errors import check

_SESSION_ONLY = "This endpoint is only available to a signed-in session, not to API or OAuth tokens"


class Profile:
    def __init__(self, host):
        self._host = host
        self._profiles = {}
        self._passwords = {}

    def get(self):
        return self._profile(self._host.account("profile:read").address)

    def update(self, changes):
        address = self._session()
        given = {name: value for name, value in asdict(changes).items() if value is not None}
        changed = replace(self._profile(address), **given)
        for name in (changed.first_name, changed.last_name):
            check(1 <= len(name) <= 64, "invalid_name", "A name must be 1 to 64 characters")
        born = _date(changed.dob)
        check(born is not None, "invalid_date_of_birth", "dob must be a date of the form YYYY-MM-DD")
        age = datetime.fromtimestamp(self._host.now / 1000, timezone.utc) - born
        check(age >= timedelta(0), "invalid_date_of_birth", "dob must not be in the future")
        check(age >= timedelta(days=13 * 365.25), "too_young", "You must be at least 13 years old")
        self._profiles[address] = changed

    def change_password(self, current, new):
        address = self._session()
        strong = all(re.search(part, new) for part in ("[A-Z]", "[a-z]", "[0-9]"))
        text = "The password must have 8 characters, an upper-case letter, a lower-case letter and a digit"
        check(len(new) >= 8 and strong, "invalid_password", text)
        if current != self._passwords.get(address, "Correct-Horse-7"):
            return PasswordChange.WRONG
        self._passwords[address] = new
        return PasswordChange.SAME if current == new else PasswordChange.CHANGED

    def _session(self):
        """Returns the caller's address, or raises an error if the caller has no web session."""
        address = self._host.account().address
        session = self._host.caller.current().kind == "session"
        check(session, "session_required", _SESSION_ONLY, types.Error_Denied)
        return address

    def _profile(self, address):
        return self._profiles.get(address, Details(address, "Ada", "Lovelace", "1990-12-10", self._host.now))


def _date(text):
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
