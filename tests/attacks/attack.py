"""Shared code of the attack scripts: arguments, HTTP requests, and the verdict.

Each script runs one attack against a deployment and ends with status 0 if the deployment withstands it, 1 if it does not, and 2 for wrong arguments. The scripts
need Python 3.9 and nothing else. Passwords come from the environment, so that they are in no list of processes.
"""

import argparse
import http.client
import json
import os
import socket
import ssl
import sys
import time
import urllib.parse


def arguments(description, *options):
    """Parses the command line. Each option is a name, a help text and optionally a default; without a default it is required."""
    parser = argparse.ArgumentParser(description=description)
    for name, text, *default in options:
        parser.add_argument(name, help=text, required=not default, default=default[0] if default else None)
    return parser.parse_args()


def password(variable):
    """A password from the environment."""
    if variable not in os.environ:
        print(f"set {variable} to the password", file=sys.stderr)
        sys.exit(2)
    return os.environ[variable]


def connect(url, source=None, timeout=60):
    """A connection to the service, from one of this machine's addresses if one is given."""
    parts = urllib.parse.urlsplit(url)
    bind = (source, 0) if source else None
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout, source_address=bind, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout, source_address=bind)


class Response:
    """A response: status, headers in lower case, text and, if it has any, JSON."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode("utf-8", "replace")
        try:
            self.json = json.loads(self.text)
        except ValueError:
            self.json = None


def request(url, method, path, token=None, body=None, source=None, headers=(), patient=True):
    """Sends one request. If `patient`, a 429 is waited for and the request repeated."""
    while True:
        connection = connect(url, source)
        all_headers = dict(headers)
        if token:
            all_headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, all_headers)
        response = Response(connection.getresponse())
        connection.close()
        if response.status != 429 or not patient:
            return response
        time.sleep(int(response.headers.get("retry-after", "1")))


def sign_in(url, address, secret, source=None, patient=True):
    """Signs in and returns the access token, or ends the script."""
    response = request(url, "POST", "/api/v1/auth/login", body={"email": address, "password": secret}, source=source, patient=patient)
    if response.status != 200:
        print(f"cannot sign in as {address}: {response.status} {response.text}", file=sys.stderr)
        sys.exit(2)
    return response.json["accessToken"]


def raw(url, head, source=None, timeout=60):
    """A connection on which the head of a request was written, from one of this machine's addresses if one is given."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    bind = (source, 0) if source else None
    stream = socket.create_connection((parts.hostname, port), timeout, bind)
    if parts.scheme == "https":
        stream = ssl.create_default_context().wrap_socket(stream, server_hostname=parts.hostname)
    stream.sendall(head.encode())
    return stream


def verdict(problems):
    """Prints what was found and ends the script."""
    for problem in problems:
        print(f"VULNERABLE: {problem}")
    if not problems:
        print("withstood")
    sys.exit(1 if problems else 0)
