"""The alias routes of components/aliases, written in Python.

This file is the list of routes. actions.py contains the actions, description.py the API description, and latchmail.py the code that other modules in Python
could share.
"""

from types import SimpleNamespace

import actions
from description import DESCRIPTION
from latchmail import Routes, scoped
from wit_world import exports
from wit_world.imports import aliases, caller

# The maximum size of a request body, in bytes. The largest body has two short fields.
SMALL = 16 * 1024

READING = {"access": scoped("aliases:read", oauth=True), "bucket": "aliases"}
WRITING = {"access": scoped("aliases:write"), "bucket": "aliases"}

routes = Routes(SimpleNamespace(aliases=aliases, caller=caller), "aliases", "0.1.0", DESCRIPTION)
routes.get("/api/v1/aliases", "listAliases", actions.list_aliases, **READING)
routes.post("/api/v1/aliases", "createAlias", actions.create_alias, max_body=SMALL, **WRITING)
routes.get("/api/v1/aliases/domains", "listAliasDomains", actions.list_alias_domains, **READING)
routes.get("/api/v1/aliases/check", "checkAlias", actions.check_alias, **READING)
routes.patch("/api/v1/aliases/{id}", "updateAlias", actions.update_alias, max_body=SMALL, **WRITING)
routes.delete("/api/v1/aliases/{id}", "deleteAlias", actions.delete_alias, **WRITING)


class Module(exports.Module):
    """The class that the component exports, under the name of the interface."""

    def describe(self):
        return routes.manifest()

    def handle(self, operation, request):
        return routes.serve(operation, request)
