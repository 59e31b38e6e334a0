"""Hooks of Schemathesis: set the credential of each request, filter out exceptions, and record all requests."""

import json
import os
import pathlib
import re
import threading
import time
import tomllib

import credentials
import schemathesis

KIND = credentials.Kind.from_json(os.environ["FUZZ_CREDENTIAL"])
EXCEPTIONS = tomllib.loads(open(os.environ["FUZZ_EXCEPTIONS"]).read())["exception"]
RECORD = open(os.environ["FUZZ_RECORD"], "a")
LOCK = threading.Lock()
ERRORS = (pathlib.Path(__file__).parents[2] / "docs/errors.md").read_text()
# The statuses of each error code.
CODES = {code: statuses.split(", ") for code, statuses in re.findall(r"^\| `(\w+)` \| ([\d, ]+) \|", ERRORS, re.MULTILINE)}
# The names of checks by the codes of their failures.
CHECKS = {"ST201": "negative_data_rejection", "ST202": "positive_data_acceptance", "ST205": "allow_header_conformance"}
# Seconds after which a credential is renewed. The access token of a web session is valid for 15
# minutes.
MAX_AGE = 600


def record(**entry):
    with LOCK:
        RECORD.write(json.dumps(entry) + "\n")
        RECORD.flush()


class CurrentCredential:
    """The current credential. It is renewed when it is old, or when it was revoked, for example by a sign-out of Schemathesis."""

    value = None
    expires = 0.0

    def get(self):
        with LOCK:
            if self.value is None or time.monotonic() > self.expires:
                self.value, self.expires = KIND.obtain(), time.monotonic() + MAX_AGE
            return self.value

    def mark_rejected(self, value):
        with LOCK:
            if value == self.value:
                self.expires = 0.0


CURRENT = CurrentCredential()

if KIND.needs_credential:

    @schemathesis.auth(refresh_interval=None)
    class Credential:
        def get(self, case, context):
            return CURRENT.get()

        def set(self, case, data, context):
            case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


@schemathesis.hook
def after_call(context, case, response):
    phase = case.meta.phase.name.value if case.meta else "probe"
    record(phase=phase, operation=case.operation.label, status=response.status_code)
    if response.status_code == 401:
        sent = response.request.headers.get("Authorization", "")
        CURRENT.mark_rejected(sent.removeprefix("Bearer "))


def text(body):
    """Returns a body as text, or an empty string if the body is not UTF-8."""
    if body is None or isinstance(body, str):
        return body or ""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return ""


@schemathesis.check
def error_code_is_listed(context, response, case):
    """Checks that a failure has an error code that docs/errors.md lists with the status. The OAuth endpoints have the errors of RFC 6749."""
    if response.status_code < 400 or case.operation.path.startswith("/auth/"):
        return
    try:
        body = json.loads(text(response.content))
    except ValueError:
        return
    if isinstance(body, dict) and isinstance(body.get("error"), str):
        code = body.get("code")
        assert str(response.status_code) in CODES.get(code, []), f"{response.status_code} {body}: the code is not listed with this status"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    operation = case.operation.definition.raw.get("operationId")
    for index, exception in enumerate(EXCEPTIONS):
        if (
            operation in exception["operations"]
            and CHECKS.get(failure.code) == exception["check"]
            and response.status_code == exception.get("status", response.status_code)
            and re.search(exception.get("response", ""), text(response.content))
            and re.search(exception.get("request", ""), text(response.request.body))
        ):
            record(exception=index)
            return False
    return True
