"""The interface `aliases` of the fake host. The platform domains are `example.test` and `second.test`."""

import re
from dataclasses import replace

from componentize_py_types import Err
from wit_world.imports import types
from wit_world.imports.aliases import Alias, Expiry_At

from .errors import check, is_line

_DOMAINS = ["example.test", "second.test"]
_RESERVED = ["abuse", "admin", "hostmaster", "postmaster", "webmaster"]


class Aliases:
    def __init__(self, host):
        self._host = host
        self._ids = 0

    def list(self):
        return sorted(self._host.account("aliases:read").aliases, key=lambda alias: alias.address)

    def domains(self):
        self._host.account("aliases:read")
        return _DOMAINS

    def check(self, name, domain):
        self._host.account("aliases:read")
        self._new_address(name, domain)

    def create(self, name, domain):
        aliases = self._host.account("aliases:write").aliases
        address = self._new_address(name, domain)
        self._ids += 1
        now = self._host.now
        alias = Alias(self._ids, address, True, now, now, note="", expires_at=None, last_received_at=None, received=0)
        aliases.append(alias)
        return alias

    def update(self, id, change):
        aliases = self._host.account("aliases:write").aliases
        index = _position(aliases, id)
        note = "" if change.note is None else change.note
        text = "note must be at most 200 characters without control characters"
        check(len(note) <= 200 and is_line(note), "invalid_alias_note", text)
        values = {name: getattr(change, name) for name in ("active", "note") if getattr(change, name) is not None}
        if change.expiry is not None:
            values["expires_at"] = change.expiry.value if isinstance(change.expiry, Expiry_At) else None
        aliases[index] = replace(aliases[index], modified_at=self._host.now, **values)
        return aliases[index]

    def delete(self, id):
        aliases = self._host.account("aliases:write").aliases
        del aliases[_position(aliases, id)]

    def _new_address(self, name, domain):
        """Returns the address of a new alias."""
        domain = domain.lower()
        text = "You do not have permission to use this domain"
        check(domain in _DOMAINS, "alias_domain_not_allowed", text)
        text = "The name must be 2 to 64 lower-case letters, digits, dots, hyphens and underscores"
        check(re.fullmatch("[a-z0-9._-]{2,64}", name), "invalid_alias_name", text)
        check(name not in _RESERVED, "invalid_alias_name", "This name is reserved")
        address = f"{name}@{domain}"
        text = f"{address} is already taken"
        check(address not in self._host.addresses(), "alias_taken", text, types.Error_Conflict)
        return address


def _position(aliases, id):
    for index, alias in enumerate(aliases):
        if alias.id == id:
            return index
    raise Err(types.Error_NotFound())
