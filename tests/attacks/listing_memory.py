#!/usr/bin/env python3
"""Messages with huge headers make listings use the memory of the service.

Fills the account's inbox over SMTP, then lists it four times and searches it four times at once. The password is in ACCOUNT_PASSWORD. With --pid, a process of
the service on this machine, the growth of its memory is measured.
"""

import concurrent.futures
import smtplib
import time

import attack

options = attack.arguments(
    __doc__,
    ("--url", "the service"),
    ("--smtp", "host:port of the server for incoming mail"),
    ("--account", "the account's address"),
    ("--messages", "messages", "100"),
    ("--pid", "the service's process", ""),
    ("--most", "growth of memory that is accepted, in MiB", "128"),
)
token = attack.sign_in(options.url, options.account, attack.password("ACCOUNT_PASSWORD"))


def total():
    return attack.request(options.url, "GET", "/api/v1/mail/folders/INBOX/messages?limit=1", token).json["total"]


def reset_peak():
    """Resets the peak to the current memory (proc(5), clear_refs). An earlier peak would hide the growth."""
    with open(f"/proc/{options.pid}/clear_refs", "w", encoding="ascii") as clear:
        clear.write("5")


def peak():
    """The peak memory, in MiB."""
    with open(f"/proc/{options.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))


expected = total() + int(options.messages)
host, port = options.smtp.rsplit(":", 1)
# Header fields of 240 KiB that a listing reads: folded into lines, and in fields of a length, that
# servers accept. Addresses would keep Postfix busy.
fields = ("Subject: " + "word " * 12 + "\r\n" + (" " + "word " * 12 + "\r\n") * 1300) * 3
with smtplib.SMTP(host, int(port), timeout=60) as client:
    for n in range(int(options.messages)):
        message = f"From: someone@example.com\r\n{fields}Subject: hostile {n}\r\n\r\n" + ("<style>" * 100 + "\r\n") * 90
        client.sendmail("someone@example.com", [options.account], message)
while total() < expected:
    time.sleep(0.5)
# The search indexes the messages first. The memory of this work is not that of the requests.
while attack.request(options.url, "GET", "/api/v1/mail/search?q=hostile&limit=1", token).status == 503:
    time.sleep(0.5)
if options.pid:
    reset_peak()
before = peak() if options.pid else 0
paths = ["/api/v1/mail/folders/INBOX/messages?limit=100", "/api/v1/mail/search?q=hostile&limit=100"] * 4
with concurrent.futures.ThreadPoolExecutor(len(paths)) as pool:
    statuses = set(pool.map(lambda path: attack.request(options.url, "GET", path, token).status, paths))
problems = []
if not statuses <= {200, 503}:
    problems.append(f"listings ended with {sorted(statuses)}")
if options.pid:
    grown = peak() - before
    print(f"the memory grew by {grown} MiB")
    if grown > int(options.most):
        problems.append(f"four listings and four searches took {grown} MiB")
attack.verdict(problems)
