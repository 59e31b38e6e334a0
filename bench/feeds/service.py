"""Runs Latchmail with the Dovecot of its own templates, so that each can be killed alone.

`latchmail dev` writes the configurations once, and creates the account. Then the bench starts the
same Dovecot and `latchmail serve` itself."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import tomllib
import urllib.parse

from dovecot import Dovecot, free_port

LIMITS = "mail search events aliases profile tokens app_passwords sign_in sign_in_address " \
    "unproven registration password_change mcp teams webhooks modules public readiness session " \
    "oauth admin"
ACCOUNT = {"local_part": "ada", "domain": "latchmail.test", "password": "Correct-Horse-7",
           "first_name": "Ada", "last_name": "Lovelace", "dob": "1990-12-10"}


class Response(Exception):
    """A response with an unexpected status."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:200]}")
        self.status = status


def connect(base, timeout=90):
    """Opens a connection to the service."""
    url = urllib.parse.urlsplit(base)
    return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)


def call(connection, method, path, token=None, body=None, scheme="Bearer"):
    """Sends a request, and returns the JSON of the response."""
    headers = {"Authorization": f"{scheme} {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read()
    except http.client.HTTPException as error:
        connection.close()
        raise ConnectionError(str(error)) from error
    except OSError:
        connection.close()
        raise
    if response.status >= 300:
        raise Response(response.status, text.decode("utf-8", "replace"))
    return json.loads(text or "null")


class Host:
    """One process of the service."""

    def __init__(self, program, config, log):
        self.program = program
        self.config = pathlib.Path(config)
        self.log = log
        self.base = None
        self.process = None

    def start(self):
        """Starts the host if it does not run, and waits until it responds."""
        if self.process and self.process.poll() is None:
            return
        listen = next(line for line in self.config.read_text().splitlines()
                      if line.startswith("listen = "))
        self.base = "http://" + listen.split('"')[1]
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
        command = [self.program, "serve", "--config", self.config]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        until = time.monotonic() + 120
        while True:
            try:
                call(connect(self.base, 5), "GET", "/api/health")
                return
            except (OSError, Response):
                if self.process.poll() == -signal.SIGKILL:
                    # The bench has killed the host again, and starts it again.
                    return
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("the service did not start; see service.log") from None
                time.sleep(0.05)

    def kill(self):
        """Kills the host."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ends the host."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


class Latchmail:
    """The service, its Dovecot and one account. `settings` is added to the configuration."""

    def __init__(self, program, modules, state, hosts, database, settings, has_notices):
        self.state = pathlib.Path(state)
        self.state.mkdir(parents=True, exist_ok=True)
        self.log = open(self.state / "service.log", "ab")
        self._prepare(program, modules, database)
        file = self.state / "latchmail.toml"
        text = file.read_text() + settings
        # All hosts must have the same base URL.
        text = f'base_url = "http://{tomllib.loads(text)["listen"]}"\n{text}'
        text += "\n[limits]\n" + "".join(f"{name} = 10000000\n" for name in LIMITS.split())
        if not has_notices:
            text = re.sub("(?<=\\[events\\]\n)listen = .*", "check_interval = 1", text)
        file.write_text(text)
        self.hosts = [Host(program, file, self.log)]
        for number in range(2, hosts + 1):
            self.hosts.append(Host(program, self._other(text, number), self.log))
        self.imap = _address(tomllib.loads(text)["imap"]["address"])
        self.dovecot = Dovecot(self.state / "mail/dovecot/dovecot.conf", self.imap)
        common = (self.state / "mail/dovecot/common.conf").read_text()
        port = re.search(r"inet_listener lmtp \{\s*port = (\d+)", common).group(1)
        self.lmtp = ("127.0.0.1", int(port))
        self.user = self.password = self.token = None

    def _prepare(self, program, modules, database):
        """Runs `latchmail dev` until it has written the configurations."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("LATCHMAIL_")}
        environment |= {"LATCHMAIL_STATE": str(self.state), "LATCHMAIL_LISTEN": "127.0.0.1:0"}
        command = [program, "dev", "--modules", modules]
        command += ["--database", database] if database else []
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=self.log, stderr=self.log)
        while not (self.state / "run.json").exists() and process.poll() is None:
            time.sleep(0.1)
        process.terminate()
        process.wait(60)

    def start(self):
        """Starts Dovecot and the hosts, and registers the account."""
        self.hosts[0].start()
        self.dovecot.start()
        for host in self.hosts:
            host.start()
        client = connect(self.hosts[0].base)
        session = call(client, "POST", "/api/v1/auth/register", body=ACCOUNT)["accessToken"]
        made = call(client, "POST", "/api/v1/app-passwords", session, {"label": "bench"})
        self.user, self.password = "ada@latchmail.test", made["password"]
        token = {"label": "bench", "scopes": ["mail:read"]}
        self.token = call(client, "POST", "/api/v1/tokens", session, token)["token"]

    def _other(self, text, number):
        """Writes the configuration of another host."""
        address = lambda _: f'listen = "127.0.0.1:{free_port()}"'
        text = re.sub("^listen = .*", address, text, flags=re.M)
        for name in ("latchmail.sock", "cache"):
            text = text.replace(f'"{self.state}/{name}"', f'"{self.state}/{number}-{name}"')
        file = self.state / f"latchmail-{number}.toml"
        file.write_text(text)
        return file

    def stop(self):
        """Ends the hosts and Dovecot."""
        for host in self.hosts:
            host.stop()
        self.dovecot.stop()
        self.log.close()


def _address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)
