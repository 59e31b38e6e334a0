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
call("get_quota", me)

# Conditional requests. `get_message` cannot have conditions here: the generated function uses the
# name of its parameter `headers` for a variable of its own.
part = {"uid": uid, "index": message.attachments[0].index}
version = detailed("get_attachment", me, **part).headers["etag"]
detailed("get_attachment", me, 304, **part, if_none_match=version)

# Folders. The missing parent is created too.
path = f"Tour{folder.delimiter}Letters"
letters = call("create_folder", me, 201, body=models.FolderPath(path=path))
assert (letters.path, letters.name, letters.messages) == (path, "Letters", 0)
renamed = call("rename_folder", me, folder=path, body=models.FolderPath(path="Letters"))
assert (renamed.id, renamed.path) == (letters.id, "Letters")
call("delete_folder", me, folder="Tour")
assert "Tour" not in [each.path for each in call("list_folders", me).folders]

# Import a message, and read its bytes.
letter = b"From: grace@outside.test\r\nSubject: Letter\r\n\r\nHello\r\n"
options = {
    "folder": "Letters",
    "flags": ["\\Flagged"],
    "received_at": datetime.datetime(2026, 11, 20, 8, tzinfo=datetime.timezone.utc),
    "idempotency_key": "a-letter",
}
imported = call("import_message", me, 201, body=File(payload=io.BytesIO(letter)), **options)
assert imported.folder == "Letters"
again = detailed("import_message", me, 201, body=File(payload=io.BytesIO(letter)), **options)
assert again.parsed.uid == imported.uid
assert again.headers["idempotent-replayed"] == "true"
assert call("get_raw_message", me, uid=imported.uid).payload.read() == letter
version = detailed("get_raw_message", me, uid=imported.uid).headers["etag"]
detailed("get_raw_message", me, 304, uid=imported.uid, if_none_match=version)
beginning = detailed("get_raw_message", me, 206, uid=imported.uid, range_="bytes=0-3")
assert beginning.content == letter[:4]
assert beginning.headers["content-range"] == f"bytes 0-3/{len(letter)}"

# Copy messages.
to_letters = models.CopyRequest(destination="Letters")
copied = call("copy_message", me, 201, uid=uid, body=to_letters).uid
both = [imported.uid, copied]
to_archive = models.BulkCopyRequest(uids=both, destination="Archive")
assert call("bulk_copy_messages", me, body=to_archive).count == 2


def read(numbers, **arguments):
    """The response with several messages."""
    return call("get_messages", me, uids=",".join(map(str, numbers)), **arguments)


def folders_of(numbers):
    return [each.folder for each in read(numbers).messages]


assert folders_of(both) == ["Letters", "Letters"]
[detail] = read([copied], view=models.GetMessagesView.DETAIL).messages
assert detail.message_id == message.message_id

# List a folder with a cursor.
newest = call("list_messages", me, folder="Letters", limit=1)
assert newest.total == 2
oldest = call("list_messages", me, folder="Letters", limit=1, cursor=newest.next_cursor)
assert oldest.next_cursor is None
assert {each.uid for each in newest.messages + oldest.messages} == set(both)

# Replace flags, if the message has not changed.
version = detailed("get_message", me, uid=imported.uid).headers["etag"]
seen = models.ReplaceFlagsRequest(flags=["\\Seen"])
call("replace_flags", me, uid=imported.uid, body=seen, if_match=version)
call("replace_flags", me, 412, uid=imported.uid, body=seen, if_match=version)
flags = call("get_message", me, uid=imported.uid).flags
assert "\\Seen" in flags and "\\Flagged" not in flags
only_unread = models.ListMessagesUnread.TRUE
unread = call("list_messages", me, folder="Letters", unread=only_unread).messages
assert [each.uid for each in unread] == [copied]

# Move messages to Trash and back.
call("trash_message", me, uid=copied)
assert folders_of(both) == ["Letters", "Trash"]
call("restore_message", me, uid=copied)
assert folders_of(both) == ["Letters", "Letters"]
assert call("bulk_trash_messages", me, body=models.UidsRequest(uids=both)).count == 2
assert folders_of(both) == ["Trash", "Trash"]
assert call("bulk_restore_messages", me, body=models.UidsRequest(uids=both)).count == 2
assert folders_of(both) == ["Letters", "Letters"]

# Snooze a message.
tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
call("snooze_message", me, uid=copied, body=models.SnoozeRequest(until=tomorrow))
assert folders_of(both) == ["Letters", "Snoozed"]
snoozed = call("get_snooze", me, uid=copied).until
assert abs((snoozed - tomorrow).total_seconds()) < 1
call("unsnooze_message", me, uid=copied)
assert call("get_snooze", me, uid=copied).until is None
assert folders_of(both) == ["Letters", "Letters"]

# Delete a folder with its messages.
call("delete_folder", me, 409, folder="Letters")
call("delete_folder", me, folder="Letters", messages=models.DeleteFolderMessages.DELETE)
assert sorted(read(both).missing) == sorted(both)

# Send a message with an attachment of each source.
table = File(payload=io.BytesIO(b"a,b"))
upload = call("upload_file", me, 201, body=table, filename="a.csv")
assert (upload.filename, upload.size) == ("a.csv", 3)
sent = models.SendRequest(
    from_=data["address"],
    from_name="Ada Lovelace",
    reply_to=[data["guest"]],
    to=[data["guest"]],
    subject="A tour",
    text="Hello",
    in_reply_to=message.message_id,
    headers=[models.SendHeader(name="X-Tour", value="7")],
    attachments=[
        models.ContentAttachment(filename="a.txt", content=base64.b64encode(b"a").decode()),
        models.UploadAttachment(upload_id=upload.upload_id),
        models.MessageAttachment(**part),
        models.MessageAttachment(uid=uid),
    ],
)
result = call("send_message", me, body=sent, idempotency_key="a-tour")
again = detailed("send_message", me, body=sent, idempotency_key="a-tour")
assert again.parsed.message_id == result.message_id
assert again.headers["idempotent-replayed"] == "true"
[copy] = call("list_messages", me, folder=result.saved_to, limit=1).messages
copy = call("get_message", me, uid=copy.uid)
assert copy.message_id == result.message_id
assert copy.from_[0].name == "Ada Lovelace"
assert [each.address for each in copy.reply_to] == [data["guest"]]
expected = ["a.txt", "a.csv", message.attachments[0].filename, "Rich.eml"]
assert [each.filename for each in copy.attachments] == expected

deliveries = call("get_deliveries", me, message_id=result.message_id)
assert deliveries.recipients[0].address == data["guest"]

# Replies and forwards.
answer = models.ComposeRequest(to=data["guest"], text="Hello", locale="de")
call("reply_to_message", me, uid=uid, body=answer)
call("reply_to_all", me, uid=uid, body=models.ComposeRequest(to=[data["guest"]], html="<p>Hello</p>"))
call("forward_message", me, uid=uid, body=models.ComposeRequest(to=data["guest"], as_attachment=True))

# Drafts.
draft = call("create_draft", me, 201, body=models.DraftRequest(to="half@", subject="Draft", text="Hello"))
assert call("get_draft", me, id=draft.id).draft.to == ["half@"]
finished = models.DraftRequest(from_=data["address"], to=[data["guest"]], subject="Draft", text="Hello")
replaced = call("replace_draft", me, id=draft.id, if_match=f'"{draft.version}"', body=finished)
assert call("list_drafts", me, limit=1).drafts[0].version == replaced.version
call("send_draft", me, id=draft.id, body=models.DraftSendRequest())
draft = call("create_draft", me, 201, body=models.DraftRequest(mode="reply", uid=uid, text="Hello"))
call("delete_draft", me, id=draft.id)

# The outbox.
year = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)
planned = models.SendRequest(
    from_=data["address"], to=[data["guest"]], subject="Later", text="Hello", send_at=year
)
later = call("send_message", me, 202, body=planned)
assert call("get_outbox_entry", me, id=later.outbox_id).state == "scheduled"
change = models.RescheduleRequest(send_at=datetime.datetime(2027, 2, 1, tzinfo=datetime.timezone.utc))
call("reschedule_outbox_entry", me, id=later.outbox_id, body=change)
call("cancel_outbox_entry", me, id=later.outbox_id)
assert call("list_outbox", me).entries[0].state == "cancelled"

# The stream of events. A stream with a type that exists does not end.
detailed("stream_events", me, 400, types="none")

# Webhooks. Nothing listens at the receiver.
hook = models.WebhookRequest(url="https://hooks.example.com/a", types=["message.created"])
hook = call("create_webhook", me, 201, body=hook)
assert call("get_webhook", me, id=hook.id).state == "active"
assert call("list_webhooks", me).webhooks[0].id == hook.id
call("update_webhook", me, id=hook.id, body=models.WebhookChange(enabled=False))
assert call("rotate_webhook_secret", me, id=hook.id).secret != hook.secret
tried = call("test_webhook", me, id=hook.id)
assert call("list_webhook_deliveries", me, id=hook.id).deliveries[0].id == tried.id
detailed("replay_webhook_delivery", me, 409, id=hook.id, delivery=tried.id)
call("delete_webhook", me, id=hook.id)

# The vacation response and the rules.
call("set_vacation", me, body=models.Vacation(is_enabled=True, text_body="I am away."))
assert call("get_vacation", me).text_body == "I am away."
stop = models.MailRuleAction(type_=models.MailRuleActionType.STOP)
call("set_rules", me, body=models.Rules(rules=[models.MailRule(name="Stop", actions=[stop])]))
assert call("get_rules", me).rules[0].name == "Stop"
outside = models.ForwardAddressRequest(address="ada@elsewhere.example")
added = call("add_forward_address", me, 201, body=outside)
assert call("list_forward_addresses", me).forward_addresses[0].status == "pending"
call("confirm_forward_address", me, 400, id=added.id, body=models.ForwardAddressCode(code="wrong"))
call("delete_forward_address", me, id=added.id)

# Change messages.
call("flag_message", me, uid=uid, body=models.FlagRequest(flags=["\\Seen"], action=models.FlagAction.ADD))
call("move_message", me, uid=uid, body=models.MoveRequest(destination="Archive"))
uids = [each.uid for each in messages]
call("bulk_flag_messages", me, body=models.BulkFlagRequest(uids=uids, flags=["\\Flagged"], action=models.FlagAction.REMOVE))
call("bulk_move_messages", me, body=models.BulkMoveRequest(uids=uids, destination="Archive"))
changes = call("list_changes", me, since=cursor, limit=500).changes
assert "moved" in {change.type_.value for change in changes}
call("delete_message", me, uid=uid)
assert call("bulk_delete_messages", me, body=models.BulkDeleteRequest(uids=uids)).count == len(uids)

# Aliases.
alias_domain = call("list_alias_domains", me).domains[0].domain
call("check_alias", me, name=f"{username}-a", domain=alias_domain)
call("create_alias", me, 201, body=models.AliasRequest(domain=alias_domain))
alias = call("list_aliases", me).aliases[0]
expiry = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)
change = models.AliasChange(active=False, note="A tour", expires_at=expiry)
changed = call("update_alias", me, id=alias.id, body=change)
assert (changed.note, changed.expires_at) == ("A tour", expiry)
[alias] = [each for each in call("list_aliases", me).aliases if each.id == alias.id]
assert (alias.active, alias.note, alias.expires_at) == (False, "A tour", expiry)
change = models.AliasChange(note=None, expires_at=None)
changed = call("update_alias", me, id=alias.id, body=change)
assert (changed.note, changed.expires_at) == (None, None)
call("delete_alias", me, id=alias.id)

# Credentials.
call("update_profile", me, body=models.ProfileRequest(first_name="Augusta"))
call("get_profile", me)
call("list_account_modules", me)
call("switch_account_module", me, name="filer", body=models.ModuleSwitch(enabled=True))
token = call("create_token", me, 201, body=models.TokenRequest(label="a tour", scopes=[models.TokenScope.MAILREAD], expires_in_days=1))
reader = client(token.token)
call("list_folders", reader)


def grants(kind):
    return [each for each in call("list_grants", me).grants if each.kind == kind]


[grant] = grants("token")
assert (grant.name, grant.suspended) == ("a tour", False)
call("suspend_grant", me, id=grant.id)
assert call("list_folders", reader, 403).code == "grant_suspended"
assert grants("token")[0].suspended
call("resume_grant", me, id=grant.id)
call("list_folders", reader)
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
call("compare_module", admin, name=name, body=models.CompareModule(modules=newer, requests=1, seconds=1))
preview = models.PreviewModule(account=data["address"], last=1)
call("preview_module", admin, name="filer", body=preview)
resume = models.ResumeModule(account=data["address"])
call("resume_module", admin, 404, name="filer", body=resume)  # It is not paused.
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

# The agent revokes the first of its grants, and the owner ends the other.
connected = len(grants("oauth"))
revoked = models.RevocationForm(token=tokens.refresh_token, client_id=client_id)
detailed("revoke_o_auth_token", stranger, body=revoked)
remaining = grants("oauth")
assert len(remaining) == connected - 1
for grant in remaining:
    call("end_grant", me, id=grant.id)
assert not grants("oauth")

# Last, because it ends other sessions.
changed = models.PasswordRequest(current_password=data["password"], new_password=data["password"] + "x")
call("change_password", me, body=changed)

left = {operation["operationId"] for _, _, operation in operations()} - called
assert not left, f"not called: {left}"
