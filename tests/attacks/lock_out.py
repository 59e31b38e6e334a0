#!/usr/bin/env python3
"""Strangers try wrong passwords on an address until its owner cannot sign in.

The owner's password is in ACCOUNT_PASSWORD. --from names addresses of this machine, separated by commas, from which the attempts come; the owner comes from
the address that the system chooses.
"""

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--account", "the owner's address"),
    ("--from", "the attackers' addresses on this machine, as in 127.0.0.2,127.0.0.3"),
    ("--attempts", "wrong attempts", "30"),
)
sources = getattr(options, "from").split(",")
for n in range(int(options.attempts)):
    body = {"email": options.account, "password": f"Wrong-Horse-{n}"}
    attack.request(options.url, "POST", "/api/v1/auth/login", body=body, source=sources[n % len(sources)], patient=False)
body = {"email": options.account, "password": attack.password("ACCOUNT_PASSWORD")}
login = attack.request(options.url, "POST", "/api/v1/auth/login", body=body, patient=False)
problems = []
if login.status != 200:
    problems.append(f"the owner cannot sign in: {login.status} {login.text}")
attack.verdict(problems)
