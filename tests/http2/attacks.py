"""Attacks and mistakes of an HTTP/2 client. Each scenario asserts what the service does, and that it serves other clients at the same time.

Usage: attacks.py --address HOST:PORT --certificate FILE SCENARIO. Prints `withstood` at the end.
"""

import argparse
import json
import sys
import threading
import time

import hyperframe.frame as frames
from client import EVENTUALLY, Client, Closed, request

LOGIN = "/api/v1/auth/login"
LARGE = "/api/openapi.json"
# The source address of the clients that are not the attacker.
OTHER = "127.0.0.2"
# Error codes (RFC 9113, section 7).
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM = 0, 1, 7

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def assert_serves(options, source=OTHER):
    """Asserts that the service serves a client on a new connection."""
    client = Client(options, source)
    stream = client.headers(request())
    status, _, body = client.response(stream)
    assert (status, json.loads(body)["status"]) == (200, "ok"), (status, body)
    client.close()


def hold(client):
    """Begins a request whose body does not arrive. Returns the number of the stream."""
    return client.headers(request(LOGIN, "POST"), flags=("END_HEADERS",))


class Others:
    """Clients that are served during an attack."""

    def __init__(self, options):
        self.options, self.served, self.failure, self.ended = options, 0, None, False

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        try:
            while not self.ended:
                assert_serves(self.options)
                self.served += 1
        except BaseException as error:
            self.failure = error

    def wait(self):
        """Waits until another client was served from now on."""
        target = self.served + 2
        deadline = time.monotonic() + EVENTUALLY
        while self.served < target and not self.failure:
            assert time.monotonic() < deadline, "no other client is served"
            time.sleep(0.01)

    def __exit__(self, *failure):
        if not failure[0]:
            self.wait()
        self.ended = True
        self.thread.join()
        if self.failure:
            raise self.failure


@scenario
def requests(options):
    client = Client(options)
    streams = [client.headers(request()) for _ in range(100)]
    for stream in streams:
        status, headers, body = client.response(stream)
        assert status == 200 and json.loads(body)["status"] == "ok"
        assert headers["strict-transport-security"] == "max-age=31536000", headers
        assert "connection" not in headers and "x-request-id" in headers, headers
    settings = client.wait_for("settings", lambda e: e[0] == "settings")[1]
    assert settings[3] == 100 and settings[6] == 65536, settings
    status, headers, body = client.response(client.headers(request(method="HEAD")))
    assert (status, body) == (200, b"") and int(headers["content-length"]) > 0, headers
    # Parts of a body, and trailers.
    stream = hold(client)
    client.data(stream, b'{"email": "nobody@first.test", ')
    client.data(stream, b'"password": "Wrong-Horse-7"}')
    client.headers([("x-trailer", "x")], stream=stream)
    status, _, body = client.response(stream)
    assert (status, json.loads(body)["error"]) == (401, "Invalid credentials"), body
    # The cookies of a request can be in several headers.
    crumbs = [("cookie", "a=1"), ("cookie", "b=2")]
    assert client.outcome(client.headers(request(more=crumbs))) == 200


@scenario
def malformed_requests(options):
    reset = f"reset {PROTOCOL_ERROR}"
    get = request()

    def replace(name, value):
        return [(n, value if n == name else v) for n, v in get if n != name or value is not None]

    cases = [
        # :authority and Host.
        (replace(":authority", None), 400),
        (replace(":authority", ""), reset),
        (replace(":authority", "u@service.test"), 400),
        (replace(":authority", "a/b"), reset),
        (get + [("host", "other.test")], 400),
        (get + [("host", "service.test"), ("host", "service.test")], 400),
        (replace(":authority", None) + [("host", "service.test")], 200),
        (get + [("host", "service.test")], 200),
        # Pseudo-headers.
        (replace(":method", None), reset),
        (replace(":scheme", None), reset),
        (replace(":path", None), reset),
        (replace(":path", ""), reset),
        (get + [(":path", "/x")], reset),
        (get + [("x", "y"), (":path", "/x")], reset),
        ([(":path", "/x")] + get, reset),
        (get + [(":status", "200")], reset),
        (get + [(":protocol", "websocket")], reset),
        # Connection-specific headers.
        (get + [("connection", "close")], reset),
        (get + [("keep-alive", "x")], reset),
        (get + [("proxy-connection", "close")], reset),
        (get + [("upgrade", "h2c")], reset),
        (get + [("transfer-encoding", "chunked")], reset),
        (get + [("te", "gzip")], reset),
        (get + [("te", "trailers")], 200),
        # Unusual but valid targets.
        (replace(":path", "/nowhere"), 404),
        (replace(":method", "BREW"), 405),
        (replace(":path", "*"), 404),
        (replace(":scheme", "http"), 200),
        # Lengths.
        (get + [("content-length", "5")], reset),
        (get + [("content-length", "+5")], reset),
        (get + [("content-length", "5"), ("content-length", "6")], reset),
        (get + [("content-length", "0"), ("content-length", "0")], 400),
    ]
    client = Client(options)
    for headers, expected in cases:
        outcome = client.outcome(client.headers(headers))
        assert outcome == expected, (headers, outcome, expected)
        # The stream fails, not the connection.
        assert client.outcome(client.headers(get)) == 200, headers
    # h2 rejects these names and values with the connection.
    for name, value in [("X-Upper", "y"), ("x y", "z"), ("x", "y\r\nz: w"), ("x", "\0"), ("", "y"), ("x:", "y")]:
        client = Client(options)
        outcome = client.outcome(client.headers(get + [(name, value)]))
        assert outcome in ("closed", reset, 400), (name, value, outcome)
    # A body that is longer or shorter than announced.
    for length, data in [("3", b"{}"), ("1", b"{}")]:
        client = Client(options)
        headers = request(LOGIN, "POST", more=[("content-length", length)])
        stream = client.headers(headers, flags=("END_HEADERS",))
        client.data(stream, data, end=True)
        outcome = client.outcome(stream)
        assert outcome in (reset, 400), (length, outcome)
        assert client.outcome(client.headers(get)) == 200
    assert_serves(options)


@scenario
def invalid_frames(options):
    settings = b"\0\0\0\x04\0\0\0\0\0"
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for data in [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n" + settings,
        preface + b"\0\0\0\x06\0\0\0\0\0",
        preface + b"\xff\xff\xff\0\0\0\0\0\0",
        preface + settings + b"\0\0\x05\x04\0\0\0\0\0abcde",
        preface + settings + b"\0\0\x06\x04\0\0\0\0\0\0\x04\xff\xff\xff\xff",
        preface + settings + b"\0\0\0\0\x01\0\0\0\x01",
        preface + settings + b"\0\0\0\x01\x05\0\0\0\x02",
        preface + settings + b"\0\0\0\x09\x04\0\0\0\x01",
        preface + settings + b"\0\0\x04\x08\0\0\0\0\0\0\0\0\0",
        preface + settings + b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff" * 2,
        preface + settings + b"\0\0\x04\x05\x04\0\0\0\x01\0\0\0\x02",
        preface + settings + b"\0\0\x02\x01\x05\0\0\0\x01\xff\xff",
        preface + settings + b"\0\0\x07\x06\0\0\0\0\0abcdefg",
    ]:
        client = Client(options, preface=False)
        client.send(data)
        client.read_until_closed()
    # A stream that was used, and one that is lower.
    for stream in (1, 3):
        client = Client(options)
        client.next_stream = 3
        assert client.outcome(client.headers(request())) == 200
        try:
            client.headers(request(), stream=stream)
            client.read_until_closed()
        except Closed:
            pass
    assert_serves(options)


@scenario
def oversized_requests(options):
    client = Client(options)
    get = request()
    assert client.outcome(client.headers(get + [("x", "y")] * 100)) == 200
    status, _, body = client.response(client.headers(get + [("x", "y")] * 101))
    assert (status, json.loads(body)["error"]) == (431, "The request's headers are too large"), body
    assert client.outcome(client.headers(request("/" + "a" * 16000))) == 404

    def large(headers):
        block = client.encoder.encode(headers)
        parts = [block[at : at + 16000] for at in range(0, len(block), 16000)]
        stream = client.new_stream()
        client.send_frame(frames.HeadersFrame(stream, parts[0], flags=("END_STREAM",)))
        for part in parts[1:-1]:
            client.send_frame(frames.ContinuationFrame(stream, part))
        client.send_frame(frames.ContinuationFrame(stream, parts[-1], flags=("END_HEADERS",)))
        return stream

    # `~` has no short code in HPACK.
    assert client.outcome(large(get + [("x", "~" * 60000)])) == 200
    assert client.outcome(large(request("/" + "~" * 60000))) == 404
    for headers in [get + [("x", "~" * 66000)], request("/" + "~" * 66000), get + [("~" * 66000, "x")]]:
        outcome = client.outcome(large(headers))
        assert outcome in (431, "closed"), outcome
        client = Client(options)
    client = Client(options)
    # A body that is too large: the response arrives, and then the rest of the body is refused
    # without an error.
    for more in ([("content-length", "100000")], []):
        stream = client.headers(request(LOGIN, "POST", more=more), flags=("END_HEADERS",))
        sent = 0
        while sent < 60000 and not any(e[0] == "reset" and e[1] == stream for e in client.events):
            client.data(stream, b"x" * 10000)
            sent += 10000
            while client.read(0):
                pass
        status, headers, body = client.response(stream)
        assert status == 413 and json.loads(body)["error"], body
        assert "connection" not in headers
        reset = client.wait_for("reset", lambda e: e[0] == "reset" and e[1] == stream)
        assert reset[2] == NO_ERROR, reset
        assert client.outcome(client.headers(get)) == 200


@scenario
def slow_requests(options):
    """The service has short timeouts."""
    with Others(options) as others:
        # Nothing, a part of the preface, and no request.
        for preface in (b"", b"PRI * HTTP/2.0\r\n"):
            client = Client(options, preface=False)
            client.send(preface)
            client.read_until_closed()
        Client(options).read_until_closed()
        # An incomplete header block: silent, and with an empty CONTINUATION from time to time.
        for dribble in (False, True):
            client = Client(options)
            assert client.outcome(client.headers(request())) == 200
            block = client.encoder.encode(request())
            stream = client.new_stream()
            client.send_frame(frames.HeadersFrame(stream, block[:3], flags=("END_STREAM",)))
            try:
                deadline = time.monotonic() + EVENTUALLY
                while True:
                    assert time.monotonic() < deadline, "an incomplete header block stays open"
                    if dribble:
                        client.send_frame(frames.ContinuationFrame(stream, b""))
                    client.read(0.05)
            except Closed:
                pass
        # A part of a frame.
        client = Client(options)
        assert client.outcome(client.headers(request())) == 200
        client.send(b"\0\0\x20\x01\x05\0\0\0\x03abc")
        client.read_until_closed()
        # A body that stops, and one that arrives in small parts.
        for dribble in (False, True):
            client = Client(options)
            headers = request(LOGIN, "POST", more=[("content-length", "10000")])
            stream = client.headers(headers, flags=("END_HEADERS",))
            deadline = time.monotonic() + EVENTUALLY
            while not any(e[0] == "headers" for e in client.events):
                assert time.monotonic() < deadline, "a slow body has no timeout"
                if dribble:
                    client.data(stream, b"x")
                client.read(0.02)
            status, _, body = client.response(stream)
            assert (status, json.loads(body)["error"]) == (408, "The request's body did not arrive in time"), body
        # A connection without requests is closed, and PING does not keep it open.
        client = Client(options)
        assert client.outcome(client.headers(request())) == 200
        try:
            deadline = time.monotonic() + EVENTUALLY
            while True:
                assert time.monotonic() < deadline, "an idle connection stays open"
                client.send_frame(frames.PingFrame(0, b"abcdefgh"))
                client.read(0.02)
        except Closed:
            pass
        goaway = [e for e in client.events if e[0] == "goaway"]
        assert goaway and goaway[-1][2] == NO_ERROR, client.events
        others.wait()


@scenario
def stalled_windows(options):
    """The service has short timeouts. Each client requests large responses, and does not read them completely."""
    with Others(options) as others:
        for window, streams, update in [
            (0, 1, 0),
            (0, 50, 0),
            (1, 50, 0),
            (1000, 50, 0),
            # The window of the connection is exhausted.
            (1 << 24, 50, 0),
            # Another stream makes progress.
            (0, 2, 1),
        ]:
            client = Client(options, settings={4: window})
            client.reads_bodies = False
            opened = [client.headers(request(LARGE)) for _ in range(streams)]
            try:
                deadline = time.monotonic() + EVENTUALLY
                while True:
                    assert time.monotonic() < deadline, f"the stalled connection stays open: {window} {streams}"
                    client.read(0.05)
                    if update:
                        client.send_frame(frames.WindowUpdateFrame(opened[0], update))
            except Closed:
                pass
            assert any(e[0] == "headers" for e in client.events), "the responses began"
        # A client that does not read from its socket.
        client = Client(options, settings={4: (1 << 31) - 1})
        client.send_frame(frames.WindowUpdateFrame(0, (1 << 30)))
        try:
            deadline = time.monotonic() + EVENTUALLY
            while True:
                assert time.monotonic() < deadline, "a client that does not read stays connected"
                client.headers(request(LARGE))
                time.sleep(0.002)
        except Closed:
            pass
        others.wait()


@scenario
def rapid_reset(options):
    """The attacker cancels each request at once, or after its work began."""
    with Others(options) as others:
        for path, method, pause in [("/api/health", "GET", 0), (LOGIN, "POST", 0), (LOGIN, "POST", 0.001)]:
            client = Client(options)
            flags = ("END_HEADERS",) if method == "POST" else ("END_HEADERS", "END_STREAM")
            try:
                for _ in range(20000):
                    stream = client.headers(request(path, method), flags=flags)
                    time.sleep(pause)
                    client.send_frame(frames.RstStreamFrame(stream, 8))
                    client.read(0)
                raise AssertionError(f"the service accepts endless cancelled requests: {path} {pause}")
            except Closed:
                pass
        others.wait()


@scenario
def continuation_flood(options):
    with Others(options) as others:
        for part in (b"", b"\x40\x01x\x01y" * 100):
            client = Client(options)
            stream = client.new_stream()
            client.send_frame(frames.HeadersFrame(stream, client.encoder.encode(request()), flags=("END_STREAM",)))
            try:
                while client.sent < 100_000_000:
                    client.send_frame(frames.ContinuationFrame(stream, part))
                raise AssertionError("the service accepts an endless header block")
            except Closed:
                pass
        others.wait()


@scenario
def header_bomb(options):
    """One byte of HPACK refers to a header of 4,000 bytes in the dynamic table."""
    with Others(options) as others:
        for count in (100, 10_000):
            client = Client(options)
            client.encoder.header_table_size = 4096
            for _ in range(50):
                block = client.encoder.encode(request())
                stream = client.new_stream()
                # 0x40: a literal with incremental indexing. 0xbe: index 62, the newest entry.
                literal = b"\x40\x01x\x7f" + bytes([(3900 - 127) % 128 | 128, (3900 - 127) // 128]) + b"y" * 3900
                payload = block + literal + b"\xbe" * count
                try:
                    client.send_frame(frames.HeadersFrame(stream, payload[:16000], flags=("END_STREAM", "END_HEADERS")))
                except Closed:
                    break
                outcome = client.outcome(stream)
                assert outcome in (431, "closed"), outcome
                if outcome == "closed":
                    break
                # The encoder does not know the new entry.
                client.encoder = type(client.encoder)()
                client = Client(options)
        others.wait()


@scenario
def control_frame_floods(options):
    """Each frame needs work or a response, and the attacker reads no responses."""
    floods = {
        "ping": lambda n: frames.PingFrame(0, b"abcdefgh"),
        "settings": lambda n: frames.SettingsFrame(0, {4: 65535 + n % 2}),
        "priority": lambda n: frames.PriorityFrame(1, depends_on=3 + 2 * (n % 50)),
        "window update": lambda n: frames.WindowUpdateFrame(0, 1),
        "unknown": lambda n: frames.ExtensionFrame(0xFA, 0, body=b"x"),
        "reset": lambda n: frames.RstStreamFrame(1, 8),
    }
    with Others(options) as others:
        for name, frame in floods.items():
            client = Client(options)
            assert client.outcome(client.headers(request())) == 200
            piece = b"".join(frame(n).serialize() for n in range(1000))
            # The service may stop reading when the attacker does not read, and may close the
            # connection.
            client.socket.settimeout(1)
            try:
                for _ in range(200):
                    client.socket.sendall(piece)
            except OSError:
                pass
            others.wait()
            client.close()


@scenario
def empty_data_frames(options):
    """The body of a request makes no progress. `http.body_timeout` is short."""
    with Others(options) as others:
        client = Client(options)
        stream = hold(client)
        deadline = time.monotonic() + EVENTUALLY
        try:
            while not any(event[0] in ("headers", "reset", "goaway") for event in client.events):
                assert time.monotonic() < deadline, "the service accepts endless empty frames"
                client.send(frames.DataFrame(stream, b"").serialize() * 100)
                client.read(0)
        except Closed:
            pass
        others.wait()


@scenario
def too_many_requests(options):
    """`http.connections_per_client` is 5."""
    client = Client(options)
    second = Client(options)
    held = [(client, hold(client)) for _ in range(3)] + [(second, hold(second)) for _ in range(2)]
    # The service processes the frames of two connections in any order. Without this, a sixth
    # request could be served before the last request of `second`, which would then be refused
    # instead.
    client.settle()
    second.settle()
    deadline = time.monotonic() + EVENTUALLY
    assert client.outcome(client.headers(request())) == f"reset {REFUSED_STREAM}"
    assert second.outcome(second.headers(request())) == f"reset {REFUSED_STREAM}"
    assert_serves(options)
    for connection, stream in [held[0], held[3]]:
        connection.data(stream, b"{}", end=True)
        assert connection.outcome(stream) in (400, 401)
    while client.outcome(client.headers(request())) != 200:
        assert time.monotonic() < deadline, "a completed request still counts"
    # More concurrent requests than the service announced.
    client = Client(options, source="127.0.0.3")
    streams = [hold(client) for _ in range(150)]
    refused = [client.outcome(stream) for stream in streams[100:]]
    assert set(refused) <= {f"reset {REFUSED_STREAM}", "closed"}, refused


@scenario
def shutdown(options):
    """The service stops when this program prints `ready`."""
    client = Client(options)
    assert client.outcome(client.headers(request())) == 200
    stream = hold(client)
    client.data(stream, b"{")
    idle = Client(options)
    assert idle.outcome(idle.headers(request())) == 200
    print("ready", flush=True)
    client.wait_for("GOAWAY", lambda e: e[0] == "goaway")
    client.data(stream, b"}", end=True)
    assert client.response(stream)[0] in (400, 401)
    client.read_until_closed()
    idle.read_until_closed()
    assert all(e[2] == NO_ERROR for e in client.events + idle.events if e[0] == "goaway")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--certificate", required=True)
    parser.add_argument("scenario", choices=SCENARIOS)
    options = parser.parse_args()
    SCENARIOS[options.scenario](options)
    print("withstood")


if __name__ == "__main__":
    sys.exit(main())
