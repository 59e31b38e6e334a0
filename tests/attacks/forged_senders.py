#!/usr/bin/env python3
"""A stranger sends mail in the name of a local address, and a user in the name of another one.

Sends to --recipient, an address of the deployment. With --account, whose app password is in APP_PASSWORD, the submission port is tried too.
"""

import smtplib

import attack

options = attack.arguments(
    __doc__,
    ("--smtp", "host:port of the server for incoming mail"),
    ("--recipient", "a local address that receives what is not rejected"),
    ("--victim", "a local address in whose name is sent"),
    ("--submission", "host:port for submission", ""),
    ("--account", "a local account other than the victim", ""),
)
problems = []


def attempt(server, envelope, header, what, login=None):
    """Sends one message. If it is accepted, it is a problem."""
    host, port = server.rsplit(":", 1)
    with smtplib.SMTP(host, int(port), timeout=60) as client:
        client.ehlo("attacker.example.com")
        if client.has_extn("starttls") and login:
            client.starttls()
            client.ehlo("attacker.example.com")
        if login:
            client.login(*login)
        message = f"From: {header}\r\nTo: {options.recipient}\r\nSubject: forged\r\n\r\n{what}\r\n"
        try:
            client.sendmail(envelope, [options.recipient], message)
        except smtplib.SMTPException as refusal:
            print(f"refused: {what}: {refusal}")
        else:
            problems.append(what)


stranger = "someone@attacker.example.com"
attempt(options.smtp, options.victim, options.victim, "a stranger sent mail with a local envelope sender")
attempt(options.smtp, stranger, options.victim, "a stranger sent mail with a local address in the header From")
if options.submission and options.account:
    login = (options.account, attack.password("APP_PASSWORD"))
    attempt(options.submission, options.account, options.victim, "a user sent mail with another's address in the header From", login)
attack.verdict(problems)
