"""Hooks of Schemathesis: the credential of each request, the exceptions, and the record of what was sent."""

import json
import os
import re
import threading
import time
import tomllib

import schemathesis
import world

KIND = world.Kind.from_json(os.environ["FUZZ_CREDENTIAL"])
EXCEPTIONS = tomllib.loads(open(os.environ["FUZZ_EXCEPTIONS"]).read())["exception"]
RECORD = open(os.environ["FUZZ_RECORD"], "a")
LOCK = threading.Lock()
# The codes of failures by the check that reports them.
CHECKS = {"ST201": "negative_data_rejection", "ST202": "positive_data_acceptance", "ST205": "allow_header_conformance"}
# A web session's access token is valid for 15 minutes.
FRESH = 600


def record(**entry):
    with LOCK:
        RECORD.write(json.dumps(entry) + "\n")
        RECORD.flush()


class Held:
    """The current credential. It is renewed when it is old or was revoked, for example by a fuzzed sign-out."""

    value = None
    until = 0.0

    def current(self):
        with LOCK:
            if self.value is None or time.monotonic() > self.until:
                self.value, self.until = KIND.obtain(), time.monotonic() + FRESH
            return self.value

    def refused(self, value):
        with LOCK:
            if value == self.value:
                self.until = 0.0


HELD = Held()

if KIND.needs_credential:

    @schemathesis.auth(refresh_interval=None)
    class Credential:
        def get(self, case, context):
            return HELD.current()

        def set(self, case, data, context):
            case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


@schemathesis.hook
def after_call(context, case, response):
    phase = case.meta.phase.name.value if case.meta else "probe"
    record(phase=phase, operation=case.operation.label, status=response.status_code)
    if response.status_code == 401:
        sent = response.request.headers.get("Authorization", "")
        HELD.refused(sent.removeprefix("Bearer "))


def text(body):
    """The text of a body, or nothing if it is not in UTF-8."""
    if body is None or isinstance(body, str):
        return body or ""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return ""


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
