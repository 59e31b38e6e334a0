#!/usr/bin/env python3
"""Many clients start to sign in and disconnect at once, so that the next sign-in waits until all their passwords were verified.

Each attempt comes from another network of 127.0.0.0/8. The password of the person who signs in next is in VICTIM_PASSWORD.
"""

import json
import time

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--victim", "the address of the person who signs in"),
    ("--attempts", "the number of abandoned attempts", "600"),
    ("--seconds", "how long the next sign-in may take", "1"),
)
_, domain = options.victim.split("@")
secret = attack.password("VICTIM_PASSWORD")


def sign_in():
    """Signs in and returns the response and the time."""
    before = time.monotonic()
    body = {"email": options.victim, "password": secret}
    response = attack.request(options.url, "POST", "/api/v1/auth/login", body=body, patient=False)
    return response, time.monotonic() - before


_, alone = sign_in()
for n in range(int(options.attempts)):
    body = json.dumps({"email": f"nobody-{n}@{domain}", "password": "Wrong-Horse-7"})
    head = f"POST /api/v1/auth/login HTTP/1.1\r\nHost: attack\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    attack.raw(options.url, head, f"127.{1 + n // 250}.{1 + n % 250}.1").close()
response, during = sign_in()
print(f"a sign-in takes {alone:.2f} s alone, and {during:.2f} s after the attempts")
problems = []
if response.status not in (200, 503):
    problems.append(f"the next sign-in failed: {response.status} {response.text}")
if response.status == 503 and "retry-after" not in response.headers:
    problems.append("503 without Retry-After")
if during > float(options.seconds):
    problems.append(f"the next sign-in took {during:.2f} s")
attack.verdict(problems)
