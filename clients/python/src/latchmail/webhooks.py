"""The signatures of webhooks (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any


class WebhookError(Exception):
    """The signature of a webhook is missing or wrong, or its time is too old."""


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secret: str, tolerance: float = 300
) -> Any:
    """Checks the signature of a request, and returns the event.

    `body` is the body as it arrived. `tolerance` is the maximum difference to the time of the
    signature, in seconds.
    """
    names = {name.lower(): value for name, value in headers.items()}
    try:
        identifier, timestamp = names["webhook-id"], names["webhook-timestamp"]
        signatures = names["webhook-signature"].split(" ")
        age = abs(time.time() - int(timestamp))
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except KeyError as error:
        raise WebhookError(f"the header {error.args[0]} is missing") from None
    except (ValueError, binascii.Error) as error:
        raise WebhookError("the time or the secret is not valid") from error
    if age > tolerance:
        raise WebhookError("the time of the signature is out of range")
    signed = f"{identifier}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = [each.removeprefix("v1,") for each in signatures if each.startswith("v1,")]
    if not any(hmac.compare_digest(each.encode(), expected.encode()) for each in given):
        raise WebhookError("no signature matches")
    return json.loads(body)
