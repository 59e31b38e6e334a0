#!/usr/bin/env python3
"""A stolen session, or a module that serves it, guesses the account's password.

The password is in ACCOUNT_PASSWORD. With --module-path the guesses are made by a module as well, in one request: a route that takes
{"passwords": [...]} and has the password changed with each (tests/fixtures/guesser).
"""

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--account", "the account's address"),
    ("--limit", "limits.password_change of the service", "5"),
    ("--module-path", "a module's route that guesses", ""),
)
secret = attack.password("ACCOUNT_PASSWORD")
token = attack.sign_in(options.url, options.account, secret)
problems = []
if options.module_path:
    guesses = [f"Wrong-Horse-{n}" for n in range(48)] + [secret]
    response = attack.request(options.url, "POST", options.module_path, token, {"passwords": guesses}, patient=False)
    if response.status == 200:
        problems.append("a module had 49 passwords checked in one request")
refused = False
for n in range(int(options.limit) + 1):
    body = {"current_password": f"Wrong-Horse-{n}", "new_password": "Another-Horse-9"}
    response = attack.request(options.url, "POST", "/api/v1/profile/password", token, body, patient=False)
    refused = refused or response.status == 429
if not refused:
    problems.append(f"a session had more than {options.limit} wrong passwords in a minute")
login = attack.request(options.url, "POST", "/api/v1/auth/login", body={"email": options.account, "password": secret})
if login.status != 200:
    problems.append(f"the account cannot sign in with its password: {login.status}")
attack.verdict(problems)
