"""The module's part of the API description (OpenAPI 3.1). The host adds the credentials and scopes of each route, and the failures that all routes
share.
"""


def _schema(name):
    return {"$ref": f"#/components/schemas/{name}"}


def _content(name):
    return {"application/json": {"schema": _schema(name)}}


def _answer(description, name, **more):
    return {"description": description, "content": _content(name), **more}


def _link(operation, name, value):
    return {operation: {"operationId": operation, "parameters": {name: f"$response.body#/{value}"}}}


def _changes(value):
    return {**_link("updateAlias", "id", value), **_link("deleteAlias", "id", value)}


def _body(name):
    return {"required": True, "content": _content(name)}


def _parameter(where, name, description, schema):
    return {"name": name, "in": where, "required": True, "description": description, "schema": schema}


def _operation(operation, summary, responses, **more):
    return {"operationId": operation, "tags": ["Aliases"], "summary": summary, "responses": responses, **more}


def _object(description, required, **properties):
    return {"description": description, "type": "object", "required": required, "properties": properties}


_TEXT = {"type": "string"}
_SOME_TEXT = {**_TEXT, "minLength": 1}
_ADDRESS = {"type": "string", "format": "email"}
_BOOLEAN = {"type": "boolean"}
_ID = {"type": "integer", "format": "int64", "minimum": 1, "maximum": (1 << 53) - 1}
_DATE = {"type": "string", "example": "2026-11-20 08:00:00"}

_BY_ID = [_parameter("path", "id", "The alias's id", _ID)]
_QUERY = [
    _parameter("query", "name", "Part before the `@`", _SOME_TEXT),
    _parameter("query", "domain", "Part after the `@`", _SOME_TEXT),
]
_MISSING = _answer("`Alias not found or not owned by you`", "Error")

_ADDED = {"x-latchmail": True}
_TIME_OR_NULL = {"type": ["string", "null"], "format": "date-time", **_ADDED}

# The fields of an alias that all responses have.
_DETAILS = {
    "note": {"type": ["string", "null"], "maxLength": 200, "description": "The owner's note, or `null`.", **_ADDED},
    "expiresAt": {
        **_TIME_OR_NULL,
        "description": (
            "The time from which the alias receives no mail and cannot be used as a sender. It can be in the past. `null` if the alias does not "
            "expire."
        ),
    },
    "lastReceivedAt": {
        **_TIME_OR_NULL,
        "description": "The time at which the alias last received mail. `null` if the mail server recorded no mail.",
    },
    "received": {
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "description": "The number of messages that the mail server recorded for the alias.",
        **_ADDED,
    },
}

DESCRIPTION = {
    "paths": {
        "/api/v1/aliases": {
            "get": _operation("listAliases", "List aliases", {"200": _answer("The aliases", "AliasList", links=_changes("aliases/0/id"))}),
            "post": _operation(
                "createAlias",
                "Create an alias",
                {
                    "201": _answer("The alias", "CreatedAlias", links=_changes("id")),
                    "400": _answer(
                        "The domain is missing, the address is already taken, the name is invalid, or the account cannot create aliases on the domain",
                        "Error",
                    ),
                    "409": _answer("The account has reached the limit of aliases", "Error"),
                },
                description=(
                    "The alias can immediately receive mail and be used as a sender. A random name can be pronounced and cannot be guessed. An address that "
                    "another account owned before counts as taken. Only its former owner can create an alias with the address again."
                ),
                requestBody=_body("AliasRequest"),
            ),
        },
        "/api/v1/aliases/domains": {
            "get": _operation(
                "listAliasDomains",
                "List the domains for aliases",
                {"200": _answer("The domains", "AliasDomainList", links=_link("checkAlias", "domain", "domains/0/domain"))},
            ),
        },
        "/api/v1/aliases/check": {
            "get": _operation(
                "checkAlias",
                "Check whether an alias is available",
                {
                    "200": _answer("Whether the alias can be created, and why not", "AliasCheck"),
                    "400": _answer("`name and domain query params required`", "Error"),
                },
                description="The check does not reserve the address: another account can take the address before the alias is created.",
                parameters=_QUERY,
            ),
        },
        "/api/v1/aliases/{id}": {
            "patch": _operation(
                "updateAlias",
                "Change an alias",
                {
                    "200": _answer("The alias was changed", "ChangedAlias"),
                    "400": _answer("`Invalid alias ID`, `active (boolean) is required`, or a text that names `note` or `expiresAt`", "Error"),
                    "404": _MISSING,
                },
                description=(
                    "An inactive or expired alias receives no mail and cannot be used as a sender. The alias still belongs to the account: it can be "
                    "enabled again, and its expiry can be changed."
                ),
                parameters=_BY_ID,
                requestBody=_body("AliasChange"),
            ),
            "delete": _operation(
                "deleteAlias",
                "Delete an alias",
                {
                    "200": _answer("The alias was deleted", "Success"),
                    "400": _answer("`Invalid alias ID`", "Error"),
                    "404": _MISSING,
                },
                description=(
                    "A deleted alias receives no mail and cannot be used as a sender. Mail that was already delivered stays in the mailbox. No other "
                    "account can use the address."
                ),
                parameters=_BY_ID,
            ),
        },
    },
    "components": {
        "schemas": {
            "Alias": _object(
                "An additional address of the mailbox.",
                ["id", "address", "active", *_DETAILS],
                id={**_ID, "description": "The id, which is derived from the address and stays the same as long as the alias exists."},
                address={**_ADDRESS, "description": "The address, in lower case."},
                active={**_BOOLEAN, "description": "Whether the alias receives mail and can be used as a sender."},
                created={
                    **_DATE,
                    "description": "The time of creation, `YYYY-MM-DD HH:MM:SS` in UTC. Absent if the service did not record it.",
                },
                modified={**_DATE, "description": "The time of the last change, `YYYY-MM-DD HH:MM:SS` in UTC. Absent if the service did not record it."},
                **_DETAILS,
            ),
            "AliasList": _object(
                "The aliases of an account.",
                ["aliases"],
                aliases={"type": "array", "items": _schema("Alias"), "description": "The aliases sorted by address, including inactive ones."},
            ),
            "AliasRequest": _object(
                "An alias to create.",
                ["domain"],
                domain={**_SOME_TEXT, "description": "One of the domains on which aliases are allowed."},
                name={
                    "type": ["string", "null"],
                    "minLength": 2,
                    "maxLength": 64,
                    "pattern": r"^[a-z0-9](?:[a-z0-9_-]|\.(?!\.))*[a-z0-9]$",
                    "description": (
                        "Part before the `@`: lower-case letters, digits, dots, hyphens and underscores. The name starts and ends with a letter or a digit, "
                        "and it does not contain two dots in a row. If the name is absent, the alias gets a random name."
                    ),
                },
            ),
            "CreatedAlias": _object(
                "A created alias.",
                ["alias", "id", *_DETAILS],
                alias={**_ADDRESS, "description": "The address of the alias."},
                id={**_ID, "description": "The id of the alias."},
                **_DETAILS,
            ),
            "AliasDomain": _object(
                "A domain on which aliases are allowed.",
                ["domain"],
                domain={**_TEXT, "description": "Name in lower case and ASCII."},
            ),
            "AliasDomainList": _object(
                "The domains on which aliases are allowed.",
                ["domains"],
                domains={
                    "type": "array",
                    "items": _schema("AliasDomain"),
                    "description": "The platform domains, then the account's own active domains.",
                },
            ),
            "AliasCheck": _object(
                "Whether an alias can be created now.",
                ["available"],
                available={**_BOOLEAN, "description": "Whether the alias can be created."},
                error={**_TEXT, "description": "The reason why the alias cannot be created. Absent if the alias can be created."},
            ),
            "AliasChange": {
                "description": "The changes of an alias. At least one field is required. A field that is absent stays as it is.",
                "type": "object",
                "minProperties": 1,
                "properties": {
                    "active": {**_BOOLEAN, "description": "Whether the alias receives mail and can be used as a sender."},
                    "note": {
                        "type": ["string", "null"],
                        "maxLength": 200,
                        "description": "A note for the owner, without control characters. `null` or an empty text removes the note.",
                        **_ADDED,
                    },
                    "expiresAt": {
                        **_TIME_OR_NULL,
                        "description": (
                            "The time from which the alias receives no mail and cannot be used as a sender (RFC 3339). `null` if the alias does not "
                            "expire. A time in the past is allowed."
                        ),
                    },
                },
            },
            "ChangedAlias": _object(
                "A changed alias.",
                ["success", *_DETAILS],
                success={**_BOOLEAN, "description": "Always `true`."},
                **_DETAILS,
            ),
            "Success": _object(
                "A response that only reports success.",
                ["success"],
                success={**_BOOLEAN, "description": "Always true."},
            ),
        },
    },
}
