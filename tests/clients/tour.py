"""Calls every operation with the client that openapi-python-client generates from the API description.

Each call returns the status that is expected, and each response is compared with the description: its status, its media type, its required headers and its
body's schema. `data.json` names the service and the accounts.
"""

import base64
import datetime
import hashlib
import importlib
import io
import json
import pathlib
import re
import secrets
import time
from urllib.parse import parse_qs, urlparse

import jsonschema
from generated import AuthenticatedClient, Client, models
from generated.types import UNSET, File

data = json.loads(pathlib.Path("data.json").read_text())
description = json.loads(pathlib.Path("openapi.json").read_text())
called = set()


def resolved(value):
    """The target of a reference, or the value itself."""
    while "$ref" in value:
        found = description
        for step in value["$ref"][2:].split("/"):
            found = found[step]
        value = found
    return value


def operations():
    """Every operation with its method and a pattern of its path. Paths without parameters come first."""
    for path, item in sorted(description["paths"].items(), key=lambda pair: "{" in pair[0]):
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for method, operation in item.items():
            yield method.upper(), pattern, operation


def check(response):
    """Compares a response with the description."""
    response.read()
    path = response.request.url.raw_path.decode().partition("?")[0]
    [operation, *_] = [
        operation for method, pattern, operation in operations() if method == response.request.method and pattern.fullmatch(path)
    ]
    what = f"{operation['operationId']} {response.status_code}"
    assert str(response.status_code) in operation["responses"], f"{what} is not described: {response.text}"
    called.add(operation["operationId"])
    described = resolved(operation["responses"][str(response.status_code)])
    for name, header in described.get("headers", {}).items():
        assert name in response.headers or not resolved(header).get("required"), f"{what} lacks the header {name}"
    media = response.headers.get("content-type", "").partition(";")[0]
    content = described.get("content", {})
    assert media in content if media else not content, f"{what} has the media type {media}"
    if media == "application/json":
        schema = {**content[media]["schema"], "components": description["components"]}
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        validator.validate(response.json())


def client(token=None):
    """A client with a bearer token, or one without."""
    settings = {
        "base_url": data["base"],
        "raise_on_unexpected_status": True,
        "httpx_args": {"event_hooks": {"response": [check]}},
    }
    return AuthenticatedClient(token=token, **settings) if token else Client(**settings)


def modules():
    """The generated function of each operation, by the operation's name."""
    for operation in (operation for _, _, operation in operations()):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", operation["operationId"]).lower()
        yield name, importlib.import_module(f"generated.api.{operation['tags'][0].lower()}.{name}")


generated = dict(modules())


def detailed(name, client, wanted=200, /, **arguments):
    """The response of an operation, which must have the wanted status."""
    response = generated[name].sync_detailed(client=client, **arguments)
    assert response.status_code == wanted, f"{name}: {response.status_code} {response.content!r}"
    return response


def call(name, client, wanted=200, /, **arguments):
    """The model that the response of an operation has."""
    return detailed(name, client, wanted, **arguments).parsed


def ready(name, client, /, **arguments):
    """The model of a response that needs the search index. Repeats the call while the index is being built."""
    for _ in range(60):
        response = generated[name].sync_detailed(client=client, **arguments)
        if response.status_code != 503:
            break
        time.sleep(0.5)
    assert response.status_code == 200, f"{name}: {response.status_code} {response.content!r}"
    return response.parsed


stranger = client()


def sign_in(address):
    return call("login", stranger, body=models.LoginBody(email=address, password=data["password"]))


me = client(sign_in(data["address"]).access_token)

# The service.
call("health", stranger)
for page in ["show_start", "show_description", "get_description_script"]:
    detailed(page, stranger)
call("readiness", stranger)
call("openapi", stranger)

# Accounts.
domain = call("registration_domains", stranger).domains[0].domain
username = f"t{secrets.token_hex(6)}"
assert call("username_available", stranger, username=username).available
person = models.RegisterBody(
    local_part=username,
    domain=domain,
    password=data["password"],
    first_name="Py",
    last_name="Thon",
    dob=datetime.date(1990, 12, 10),
)
registered = call("register", stranger, 201, body=person)
refreshed = call("refresh", stranger, body=models.RefreshBody(refresh_token=registered.refresh_token))
call("logout", client(refreshed.access_token), body=models.RefreshBody(refresh_token=refreshed.refresh_token))

# Mail.
folder = call("list_folders", me).folders[0]
messages = call("list_messages", me, folder=folder.path, page=1, limit=10).messages
cursor = call("list_changes", me).cursor
uid = call("search_messages", me, q="Rich").messages[0].uid
call("search_messages", me, q="from:grace OR rich", folder="*", sort=models.SearchMessagesSort.RELEVANCE)
thread = ready("list_threads", me, folder="*").threads[0]
assert len(ready("get_thread", me, id=thread.id).messages) == thread.count
message = call("get_message", me, uid=uid)
file = call("get_attachment", me, uid=uid, index=message.attachments[0].index)
assert len(file.payload.read()) == message.attachments[0].size
sent = models.SendRequest(
    from_=data["address"],
    to=[data["guest"]],
    subject="A tour",
    text="Hello",
    in_reply_to=message.message_id,
    attachments=[models.ContentAttachment(filename="a.txt", content=base64.b64encode(b"a").decode())],
)
call("send_message", me, body=sent, idempotency_key="a-tour")
call("flag_message", me, uid=uid, body=models.FlagRequest(flags=["\\Seen"], action=models.FlagAction.ADD))
call("move_message", me, uid=uid, body=models.MoveRequest(destination="Archive"))
uids = [each.uid for each in messages]
call("bulk_flag_messages", me, body=models.BulkFlagRequest(uids=uids, flags=["\\Flagged"], action=models.FlagAction.REMOVE))
call("bulk_move_messages", me, body=models.BulkMoveRequest(uids=uids, destination="Archive"))
changes = call("list_changes", me, since=cursor, limit=500).changes
assert "moved" in {change.type_.value for change in changes}

# Folders, and messages that are stored, copied, moved to Trash and restored.
created = call("create_folder", me, 201, body=models.FolderPath(path="Tour/One"))
renamed = call("rename_folder", me, folder="Tour/One", body=models.FolderPath(path="Tour/Two"))
assert renamed.id == created.id
assert call("get_quota", me).storage is not None
raw = b"From: Grace <grace@outside.test>\r\nSubject: Imported\r\n\r\nText.\r\n"
stored = call("import_message", me, 201, folder="Tour/Two", body=File(payload=io.BytesIO(raw)), flags=["\\Seen"])
assert detailed("get_raw_message", me, uid=stored.uid).content == raw
page = call("list_messages", me, folder="Tour/Two", limit=1)
assert (page.total, page.next_cursor) == (1, None)
several = call("get_messages", me, uids=f"{stored.uid},{uid}", view=models.GetMessagesView.SUMMARY)
assert len(several.messages) == 2
call("replace_flags", me, uid=stored.uid, body=models.ReplaceFlagsRequest(flags=["\\Flagged"]))
copied = call("copy_message", me, 201, uid=stored.uid, body=models.CopyRequest(destination="Archive"))
call("trash_message", me, uid=copied.uid)
call("restore_message", me, uid=copied.uid)
both = [stored.uid, copied.uid]
call("bulk_copy_messages", me, body=models.BulkCopyRequest(uids=both, destination="INBOX"))
call("bulk_trash_messages", me, body=models.UidsRequest(uids=both))
call("bulk_restore_messages", me, body=models.UidsRequest(uids=both))

# The vacation response and the rules.
call("set_vacation", me, body=models.Vacation(is_enabled=True, text_body="I am away."))
assert call("get_vacation", me).text_body == "I am away."
stop = models.MailRuleAction(type_=models.MailRuleActionType.STOP)
call("set_rules", me, body=models.Rules(rules=[models.MailRule(name="Stop", actions=[stop])]))
assert call("get_rules", me).rules[0].name == "Stop"

call("delete_folder", me, folder="Tour/Two", messages=models.DeleteFolderMessages.TRASH)
upload = call("upload_file", me, 201, body=File(payload=io.BytesIO(b"a")), filename="a.txt")
again = models.SendRequest(
    from_=data["address"],
    to=[data["guest"]],
    subject="References",
    text="Hello",
    from_name="Py Thon",
    reply_to=data["address"],
    headers=[models.SendHeader(name="X-Tour", value="1")],
    attachments=[models.UploadAttachment(upload_id=upload.upload_id), models.MessageAttachment(uid=copied.uid)],
)
call("send_message", me, body=again)
call("delete_message", me, uid=uid)
assert call("bulk_delete_messages", me, body=models.BulkDeleteRequest(uids=uids)).count == len(uids)

# Aliases.
alias_domain = call("list_alias_domains", me).domains[0].domain
call("check_alias", me, name=f"{username}-a", domain=alias_domain)
call("create_alias", me, 201, body=models.AliasRequest(domain=alias_domain))
alias = call("list_aliases", me).aliases[0]
call("update_alias", me, id=alias.id, body=models.AliasChange(active=False, note="for the tour"))
call("delete_alias", me, id=alias.id)

# Credentials.
call("update_profile", me, body=models.ProfileRequest(first_name="Augusta"))
call("get_profile", me)
token = call("create_token", me, 201, body=models.TokenRequest(label="a tour", scopes=[models.TokenScope.MAILREAD], expires_in_days=1))
call("list_folders", client(token.token))
grant = call("list_grants", me).grants[0]
call("suspend_grant", me, id=grant.id)
call("list_folders", client(token.token), 403)
call("resume_grant", me, id=grant.id)
call("revoke_token", me, id=call("list_tokens", me).tokens[0].id)
password = call("create_app_password", me, 201, body=models.AppPasswordRequest(label="a tour"))
call("delete_app_password", me, id=password.id)
sign_in(data["address"])
credentials = call("list_sessions", me).credentials
[elsewhere, *_] = [each for each in credentials if each.type_ == "web_session" and not each.current]
call("delete_session", me, id=elsewhere.id)

# Domains.
call("claim_domain", me, 201, body=models.DomainRequest(domain=f"{username}.example"))
call("list_domains", me)
call("verify_domain", me, domain=data["domain"])
call("get_domain", me, domain=data["domain"])
call("release_domain", me, domain=data["domain"])

# Teams.
team = call("list_teams", me).teams[0].id
rights = [models.Right.MAILREAD]
invitation = models.MailboxInvitation(
    username=data["guest"].partition("@")[0],
    password=data["password"],
    resource_kind=models.MailboxKind.MAILBOX,
    rights=rights,
)
invited = call("invite_member", me, 201, id=team, body=invitation)
[guest] = [member for member in call("list_members", me, id=team).members if member.role == models.Role.GUEST]
granted = models.FolderGrant(resource_kind=models.FolderKind.FOLDER, resource_id=folder.id, rights=[models.FolderRight.MAILREAD])
call("add_grant", me, 201, id=team, user_id=guest.user_id, body=granted)
more = models.RightsRequest(rights=[*rights, models.Right.MAILWRITE])
call("change_grant", me, id=team, grant_id=invited.grant_id, body=more)
call("revoke_grant", me, id=team, grant_id=invited.grant_id)
call("remove_member", me, id=team, user_id=guest.user_id)

# Administration.
admin = client(data["admin"])
older, newer = [[models.Component(component=component)] for component in data["components"]]
call("list_modules", admin)
call("inspect_modules", admin, body=models.Components(modules=older))
installed = call("install_modules", admin, 201, body=models.Install(modules=older, accept=True))
name = installed.modules[0].name
call("install_modules", admin, 201, body=models.Install(modules=newer, accept=True))
call("show_module", admin, name=name)
call("show_module_log", admin, name=name)
call("disable_module", admin, name=name)
call("enable_module", admin, name=name)
call("roll_module_back", admin, name=name, body=models.RollBack())
call("remove_module", admin, name=name, purge=True)

# Authorization, as an agent and as a browser.
call("protected_resource", stranger)
call("protected_agent_endpoint", stranger)
call("authorization_server", stranger)
address = "http://127.0.0.1:9/callback"
device_grant = "urn:ietf:params:oauth:grant-type:device_code"
metadata = models.ClientMetadata(
    client_name="A tour",
    redirect_uris=[address],
    grant_types=["authorization_code", "refresh_token", device_grant],
)
client_id = call("register_client", stranger, 201, body=metadata).client_id
verifier = secrets.token_urlsafe(32)
challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def sealed_in(page):
    return re.search(r'name="request" value="([^"]+)"', page.content.decode()).group(1)


# A separate client, which keeps the cookie.
browser = client()
page = detailed(
    "show_sign_in",
    browser,
    client_id=client_id,
    redirect_uri=address,
    response_type="code",
    code_challenge=challenge,
    code_challenge_method="S256",
    state="a-state",
)
filled = {"email": data["address"], "password": data["password"]}
back = detailed("submit_sign_in", browser, 303, body=models.SignInForm(request=sealed_in(page), **filled))
[code] = parse_qs(urlparse(back.headers["location"]).query)["code"]
exchanged = models.TokenForm(
    grant_type=models.GrantType.AUTHORIZATION_CODE,
    client_id=client_id,
    code=code,
    code_verifier=verifier,
    redirect_uri=address,
)
tokens = call("exchange_token", stranger, body=exchanged)

device = call("begin_device", stranger, body=models.DeviceForm(client_id=client_id))
page = detailed("show_device", browser, user_code=device.user_code)
typed = models.DevicePageForm(request=sealed_in(page), user_code=device.user_code)
page = detailed("submit_device", browser, body=typed)
detailed("submit_device", browser, body=models.DevicePageForm(request=sealed_in(page), answer="yes", **filled))
exchanged = models.TokenForm(grant_type=models.GrantType(device_grant), client_id=client_id, device_code=device.device_code)
call("exchange_token", stranger, body=exchanged)

# Agents.
agent = client(tokens.access_token)
request = models.AgentMessage(jsonrpc="2.0", id=1, method="tools/list")
assert call("call_agent_endpoint", agent, body=request, mcp_protocol_version="2025-11-25").result is not UNSET
detailed("open_agent_stream", agent, 405)
detailed("end_agent_session", agent, 405)

call("revoke_o_auth_token", stranger, body=models.RevocationForm(token=tokens.refresh_token, client_id=client_id))
[grant] = call("list_grants", me).grants
call("end_grant", me, id=grant.id)

# Last, because it ends other sessions.
changed = models.PasswordRequest(current_password=data["password"], new_password=data["password"] + "x")
call("change_password", me, body=changed)

left = {operation["operationId"] for _, _, operation in operations()} - called
assert not left, f"not called: {left}"
