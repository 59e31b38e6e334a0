"""A small IMAP client (RFC 3501): it sends commands and parses responses into nested lists."""

import base64
import re
import socket

TOKEN = re.compile(rb'\(|\)|"(?:[^"\\]|\\.)*"|[^\s()"]+')


class Error(Exception):
    """The connection has failed."""


class Refused(Exception):
    """The server has responded with NO or BAD."""


def encoded(path):
    """Returns the name of a folder in modified UTF-7, as a quoted string."""
    def encode(match):
        text = base64.b64encode(match.group().encode("utf-16-be")).decode()
        return "&" + text.rstrip("=").replace("/", ",") + "-"

    name = re.sub("[^\x20-\x7e]+", encode, path.replace("&", "&-"))
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def decoded(name):
    """Returns the path of a folder whose name is in modified UTF-7."""
    def decode(match):
        text = match.group(1).replace(",", "/")
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-16-be") or "&"

    return re.sub("&([^-]*)-", decode, name)


# The time in which a server must respond, in seconds.
TIMEOUT = 20


class Imap:
    """A connection. After an `Error`, it cannot be used again."""

    def __init__(self, address, user, password):
        self.commands = 0
        self.tag = 0
        try:
            self.socket = socket.create_connection(address, TIMEOUT)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.file = self.socket.makefile("rb")
            if not self.file.readline().startswith(b"* OK"):
                raise Error("no greeting")
        except OSError as error:
            raise Error(str(error)) from error
        try:
            self.command(f'LOGIN "{user}" "{password}"')
        except Refused as error:
            raise Error(str(error)) from error

    def close(self):
        """Closes the connection without logging out."""
        self.file.close()
        self.socket.close()

    def command(self, text, literal=None):
        """Sends a command, and returns the untagged responses."""
        self.send(text, literal)
        responses = []
        while True:
            response = self.receive()
            if response[0] == f"A{self.tag}":
                if response[1] != "OK":
                    raise Refused(f"{text}: {response}")
                return responses
            responses.append(response)

    def send(self, text, literal=None):
        """Sends a command without waiting for the response."""
        self.commands += 1
        self.tag += 1
        line = f"A{self.tag} {text}".encode()
        if literal is not None:
            line += b" {%d+}\r\n" % len(literal) + literal
        try:
            self.socket.sendall(line + b"\r\n")
        except (OSError, ValueError) as error:
            raise Error(str(error)) from error

    def receive(self, timeout=TIMEOUT):
        """Returns the next response. Raises TimeoutError if there is none."""
        try:
            self.socket.settimeout(timeout)
            if timeout < TIMEOUT and not self.file.peek(1):
                raise Error("the connection is closed")
            self.socket.settimeout(TIMEOUT)
            return self._response()
        except TimeoutError:
            if timeout < TIMEOUT:
                # A file of a socket refuses all reads after a timeout.
                self.file = self.socket.makefile("rb")
                raise
            raise Error("the server does not respond") from None
        except (OSError, ValueError) as error:
            raise Error(str(error)) from error

    def _response(self):
        stack = [[]]
        while True:
            line = self.file.readline()
            if not line.endswith(b"\r\n"):
                raise Error("the connection is closed")
            line = line[:-2]
            length = re.search(rb"\{(\d+)\}$", line)
            for token in TOKEN.findall(line[:length.start()] if length else line):
                if token == b"(":
                    stack.append([])
                elif token == b")" and len(stack) > 1:
                    done = stack.pop()
                    stack[-1].append(done)
                elif token[:1] == b'"':
                    text = token[1:-1].decode("utf-8", "replace")
                    stack[-1].append(re.sub(r"\\(.)", r"\1", text))
                else:
                    stack[-1].append(token.decode("utf-8", "replace"))
            if not length:
                return stack[0]
            data = self.file.read(int(length.group(1)))
            stack[-1].append(data.decode("utf-8", "replace"))


def folders(client):
    """Returns the paths of the folders that can be opened."""
    found = []
    for response in client.command('LIST "" "*"'):
        if response[1] == "LIST":
            attributes = {attribute.lower() for attribute in response[2]}
            if not attributes & {"\\noselect", "\\nonexistent"}:
                found.append(decoded(response[4]))
    return found


def fetched(responses):
    """Returns the data items of each FETCH response as a dictionary."""
    for response in responses:
        if len(response) > 3 and response[2] == "FETCH":
            items = response[3]
            yield dict(zip((str(key).upper() for key in items[::2]), items[1::2]))


def flags_of(item):
    """Returns the flags of a message without \\Recent."""
    return frozenset(flag for flag in item["FLAGS"] if flag != "\\Recent")


# The data item with the subject of a message.
HEADER = "BODY.PEEK[HEADER.FIELDS (SUBJECT)]"


def subject_of(item):
    """Returns the subject of a message that was fetched with its `HEADER`. Returns None for an
    unsolicited response about flags."""
    for value in item.values():
        if isinstance(value, str) and value.startswith("Subject:"):
            return value.split(":", 1)[1].strip()
    return None
