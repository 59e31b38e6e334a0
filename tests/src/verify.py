"""Verifies the DKIM signatures of messages with dkimpy and the given DNS records.

Each input line is a JSON object: the message in base64, and the records by name. Each output line is a JSON list: for each signature, whether it is valid.
"""

import base64
import json
import sys

import dkim

for line in sys.stdin:
    asked = json.loads(line)
    message = base64.b64decode(asked["message"])
    records = {name.rstrip("."): text.encode() for name, text in asked["records"].items()}

    def look_up(name, timeout=5):
        return records.get(name.decode().rstrip("."))

    signatures = dkim.DKIM(message).headers
    count = sum(name.lower() == b"dkim-signature" for name, _ in signatures)
    good = []
    for index in range(count):
        try:
            good.append(bool(dkim.DKIM(message, minkey=2048).verify(index, dnsfunc=look_up)))
        except dkim.DKIMException as error:
            print(error, file=sys.stderr)
            good.append(False)
    print(json.dumps(good), flush=True)
