#!/usr/bin/env python3
"""A member with mail:write but without mail:read reads messages by moving them.

Needs two accounts whose passwords are in OWNER_PASSWORD and MEMBER_PASSWORD, a message in the owner's INBOX, and a second folder. Invites the member to both
folders and removes it at the end.
"""

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--owner", "the owner's address"),
    ("--member", "the member's address"),
    ("--folder", "a folder of the owner's beside INBOX", "Archive"),
)
secret = attack.password("OWNER_PASSWORD")
owner = attack.sign_in(options.url, options.owner, secret)
member = attack.sign_in(options.url, options.member, attack.password("MEMBER_PASSWORD"))


def ask(token, method, path, body=None):
    return attack.request(options.url, method, f"/api/v1{path}", token, body)


folders = {folder["path"]: folder["id"] for folder in ask(owner, "GET", "/mail/folders").json["folders"]}
team = ask(owner, "GET", "/teams").json["teams"][0]["id"]
grant = {"resource_kind": "folder", "resource_id": folders["INBOX"], "resource_label": None, "rights": ["mail:write"]}
invited = ask(owner, "POST", f"/teams/{team}/invitations", {**grant, "username": options.member, "password": secret})
if invited.status != 201:
    print(f"the member cannot be invited: {invited.text}")
    raise SystemExit(2)
members = ask(owner, "GET", f"/teams/{team}/members").json["members"]
user = next(one["userId"] for one in members if one["address"] == options.member)
problems = []
try:
    grant = {**grant, "resource_id": folders[options.folder], "rights": ["mail:read", "mail:write"]}
    ask(owner, "POST", f"/teams/{team}/members/{user}/grants", grant)
    uid = ask(owner, "GET", "/mail/folders/INBOX/messages?limit=1").json["messages"][0]["uid"]
    destination = {"destination": options.folder}
    for path, body in (
        (f"/mail/messages/{uid}/move", destination),
        ("/mail/messages/bulk/move", {**destination, "uids": [uid]}),
    ):
        response = ask(member, "POST", f"{path}?mailbox={team}", body)
        if response.status != 403:
            problems.append(f"POST {path} has status {response.status}")
    if ask(member, "GET", f"/mail/messages/{uid}?mailbox={team}").status == 200:
        problems.append("the member reads a message of a folder that it may only write")
finally:
    ask(owner, "DELETE", f"/teams/{team}/members/{user}")
attack.verdict(problems)
