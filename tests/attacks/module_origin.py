#!/usr/bin/env python3
"""A public route of a module tries to run scripts on the origin of the sign-in pages and to register a service worker there.

Give it any public GET route that a module serves, at best one that responds with HTML or JavaScript.
"""

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service, as in https://mail.example.com"),
    ("--path", "a public route of a module, as in /hello"),
)
problems = []
page = attack.request(options.url, "GET", options.path)
policy = page.headers.get("content-security-policy", "")
active = any(kind in page.headers.get("content-type", "") for kind in ("html", "script", "xml", "svg"))
if page.status == 200 and active and "sandbox" not in policy:
    problems.append(f"{options.path} is shown with the origin of the service: {policy!r}")
for name, value in (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
):
    if page.headers.get(name) != value:
        problems.append(f"{options.path} has {name}: {page.headers.get(name)!r}")
for name in ("service-worker-allowed", "set-cookie", "clear-site-data"):
    if name in page.headers:
        problems.append(f"{options.path} sets {name}")
worker = attack.request(options.url, "GET", options.path, headers={"Service-Worker": "script"})
if worker.status != 403:
    problems.append(f"the script of a service worker is served with status {worker.status}")
attack.verdict(problems)
