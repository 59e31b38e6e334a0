"""Creates accounts and credentials for a run, and the configuration of Schemathesis with valid values."""

import dataclasses
import json
import re
import subprocess
import time
import urllib.parse

import requests

PASSWORD = "Correct-Horse-7"
DOMAIN = "latchmail.test"
SCOPES = ["mail:read", "mail:send", "mail:write", "aliases:read", "aliases:write", "profile:read"]


@dataclasses.dataclass
class Kind:
    """A kind of credential. `value` is a credential that does not expire. `oauth` is the id of the OAuth client that obtains tokens."""

    name: str
    base: str
    address: str = ""
    value: str = ""
    oauth: str = ""
    mailbox: str = ""
    known: dict = dataclasses.field(default_factory=dict)
    arguments: list = dataclasses.field(default_factory=list)

    def to_json(self):
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text):
        return cls(**json.loads(text))

    @property
    def needs_credential(self):
        return bool(self.address)

    def obtain(self):
        if self.value:
            return self.value
        if self.oauth:
            return oauth_token(self.base, self.oauth, self.address)
        return sign_in(self.base, self.address)


def call(method, base, path, token=None, **more):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    response = requests.request(method, base + path, headers=headers, timeout=30, **more)
    response.raise_for_status()
    return response


def register(base, name):
    body = {"local_part": name, "domain": DOMAIN, "password": PASSWORD, "first_name": name, "last_name": "Fuzz", "dob": "1990-12-10"}
    return call("POST", base, "/api/v1/auth/register", json=body).json()["user"]["email"]


def sign_in(base, address):
    return call("POST", base, "/api/v1/auth/login", json={"email": address, "password": PASSWORD}).json()["accessToken"]


REDIRECT = "http://127.0.0.1:1/callback"
# The SHA-256 hash of the verifier, in base64url (RFC 7636, appendix B).
VERIFIER, CHALLENGE = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def oauth_token(base, client, address):
    """Obtains an access token with the authorization code flow."""
    browser = requests.Session()
    parameters = {
        "client_id": client,
        "redirect_uri": REDIRECT,
        "response_type": "code",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    page = browser.get(f"{base}/login", params=parameters, timeout=30)
    hidden = re.search(r'name="request" value="([^"]*)"', page.text)[1]
    fields = {"request": hidden, "email": address, "password": PASSWORD}
    response = browser.post(f"{base}/login", data=fields, allow_redirects=False, timeout=30)
    [code] = urllib.parse.parse_qs(urllib.parse.urlparse(response.headers["Location"]).query)["code"]
    grant = {"grant_type": "authorization_code", "client_id": client, "code": code, "code_verifier": VERIFIER, "redirect_uri": REDIRECT}
    return call("POST", base, "/auth/token", data=grant).json()["access_token"]


def api_token(base, session, scopes):
    return call("POST", base, "/api/v1/tokens", session, json={"label": "fuzz", "scopes": scopes}).json()["token"]


def deliver(base, session, address):
    """Sends a message with an attachment to the account itself."""
    file = {"filename": "a.txt", "contentType": "text/plain", "content": "YQ=="}
    body = {"from": address, "to": address, "subject": "Hello", "text": "A first mail.", "attachments": [file]}
    call("POST", base, "/api/v1/mail/send", session, json=body)


def wait_for_index(base, session):
    """Waits until the search index of an account is complete. Until then, the routes of threads return 503."""
    for _ in range(60):
        response = requests.get(f"{base}/api/v1/mail/threads", headers={"Authorization": f"Bearer {session}"}, timeout=30)
        if response.status_code != 503:
            break
        time.sleep(0.5)
    response.raise_for_status()


def kinds(running, program, settings):
    """Creates the accounts and returns all kinds of credentials."""
    base = running["baseUrl"]
    names = ["session", "token", "oauth", "owner", "member", "root-person", "guest"]
    accounts = {name: register(base, name) for name in names}
    sessions = {name: sign_in(base, address) for name, address in accounts.items()}
    for name in ["session", "token", "oauth", "owner"]:
        for _ in range(3):
            deliver(base, sessions[name], accounts[name])
    for session in sessions.values():
        wait_for_index(base, session)
    client = {"client_name": "Fuzz", "redirect_uris": [REDIRECT], "grant_types": ["authorization_code", "refresh_token"]}
    client = call("POST", base, "/auth/register", json=client).json()["client_id"]

    def invite(owner, guest, rights):
        [team] = [team["id"] for team in call("GET", base, "/api/v1/teams", sessions[owner]).json()["teams"] if team["role"] == "owner"]
        body = {"username": accounts[guest], "password": PASSWORD, "resource_kind": "mailbox", "rights": rights}
        call("POST", base, f"/api/v1/teams/{team}/invitations", sessions[owner], json=body)
        return team

    mailbox = invite("owner", "member", ["mail:read", "mail:write", "mail:send", "aliases:read", "aliases:write"])
    team = invite("session", "member", ["mail:read"])
    [user] = [
        member["userId"]
        for member in call("GET", base, f"/api/v1/teams/{team}/members", sessions["session"]).json()["members"]
        if member["role"] == "guest"
    ]
    command = [program, "account", "admin", accounts["root-person"], "on", "--config", settings]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def known(owner, **more):
        return {"address": accounts[owner], "guest": accounts["guest"], "team": team, "user": user, "client": client, **more}

    token = sessions["token"]
    # The administrator is last, because it can disable modules that the other kinds need.
    return [
        Kind("anonymous", base, known=known("session")),
        Kind("session", base, accounts["session"], known=known("session")),
        Kind("token", base, accounts["token"], value=api_token(base, token, SCOPES), known=known("token")),
        Kind("narrow-token", base, accounts["token"], value=api_token(base, token, ["mail:read"]), known=known("token")),
        Kind("oauth", base, accounts["oauth"], oauth=client, known=known("oauth")),
        Kind("member", base, accounts["member"], mailbox=mailbox, known=known("owner"), arguments=["--include-tag", "Mail", "--include-tag", "Aliases"]),
        Kind("admin", base, accounts["root-person"], known=known("session"), arguments=["--include-tag", "Administration"]),
    ]


def config(kind, hooks):
    """Returns the configuration of Schemathesis for a kind: valid values that random data would not contain, and how often to use them."""
    values = {
        "address": [kind.known["address"]],
        "password": [PASSWORD],
        "domain": [DOMAIN],
        "birth": ["1990-12-10", "1950-01-01"],
        "folder": ["INBOX", "Archive", "Drafts"],
        "folders": ["INBOX", "Archive", "*"],
        "uid": [1, 2, 3],
        "index": [0],
        "guest": [kind.known["guest"]],
        "team": [kind.known["team"]],
        "user": [kind.known["user"]],
        "client": [kind.known["client"]],
        "redirect": [REDIRECT],
        "claim": ["fuzz-one.example", "fuzz-two.example"],
        "mailbox": [kind.mailbox or kind.known["team"]],
    }
    bindings = {
        "login": {"body.email": "address", "body.password": "password"},
        "register": {"body.domain": "domain", "body.dob": "birth"},
        "createAlias": {"body.domain": "domain"},
        "checkAlias": {"query.domain": "domain"},
        "listMessages": {"path.folder": "folder"},
        "searchMessages": {"query.folder": "folders"},
        "listChanges": {"query.folder": "folders"},
        "listThreads": {"query.folder": "folders"},
        "getMessage": {"path.uid": "uid"},
        "getAttachment": {"path.uid": "uid", "path.index": "index"},
        "flagMessage": {"path.uid": "uid"},
        "moveMessage": {"path.uid": "uid", "body.destination": "folder"},
        "bulkMoveMessages": {"body.destination": "folder"},
        "sendMessage": {"body.from": "address", "body.to": "address", "body.cc": "address", "body.bcc": "address"},
        "claimDomain": {"body.domain": "claim"},
        "updateProfile": {"body.dob": "birth"},
        "inviteMember": {"path.id": "team", "body.password": "password", "body.username": "guest"},
        "listMembers": {"path.id": "team"},
        "addGrant": {"path.id": "team", "path.userId": "user"},
        "changeGrant": {"path.id": "team"},
        "showSignIn": {"query.client_id": "client", "query.redirect_uri": "redirect"},
        "beginDevice": {"body.client_id": "client"},
    }
    lines = []
    for name, known in values.items():
        lines += [f"[dictionaries.{name}]", f"values = {json.dumps(known)}"]
    lines += ["[parameters]", '"query.mailbox" = { dictionary = "mailbox", probability = 0.9 }']
    for operation, parameters in bindings.items():
        lines += ["[[operations]]", f'include-operation-id = "{operation}"']
        bound = ", ".join(f'"{name}" = {{ dictionary = "{known}", probability = 0.7 }}' for name, known in parameters.items())
        lines.append(f"parameters = {{ {bound} }}")
    return "\n".join(lines) + "\n"
