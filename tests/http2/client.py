"""A client of HTTP/2 that can send any frames. It uses the library h2 only for the state of valid connections and for HPACK."""

import select
import socket
import ssl
import time

import h2.config
import h2.connection
import h2.events
import h2.settings
import hyperframe.frame as frames
from hpack import Encoder

# The timeout of a step that must end. A test fails if a step takes longer.
EVENTUALLY = 60


class Closed(Exception):
    """The service closed or reset the connection."""


class Client:
    """A connection. `sent` is the number of bytes that the client sent."""

    def __init__(self, options, source=None, settings=None, preface=True):
        context = ssl.create_default_context(cafile=options.certificate)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        host, port = options.address.rsplit(":", 1)
        raw = socket.create_connection((host, int(port)), EVENTUALLY, source and (source, 0))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket = context.wrap_socket(raw, server_hostname="service.test")
        except OSError as error:
            raise Closed(str(error)) from None
        assert self.socket.selected_alpn_protocol() == "h2"
        self.sent = 0
        self.next_stream = 1
        self.encoder = Encoder()
        config = h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False, header_encoding="utf-8"
        )
        self.h2 = h2.connection.H2Connection(config)
        if settings:
            self.h2.local_settings.update(settings)
        # The events that arrived, in order.
        self.events = []
        self.bodies = {}
        # Whether the client extends the flow-control windows as it reads.
        self.reads_bodies = True
        if preface:
            self.h2.initiate_connection()
            self.flush()

    def flush(self):
        self.send(self.h2.data_to_send())

    def send(self, data):
        """Sends bytes."""
        try:
            self.socket.settimeout(EVENTUALLY)
            self.socket.sendall(data)
        except (OSError, ssl.SSLError) as error:
            raise Closed(str(error)) from None
        self.sent += len(data)

    def send_frame(self, frame):
        self.send(frame.serialize())

    def headers(self, headers, flags=("END_HEADERS", "END_STREAM"), stream=None):
        """Sends a HEADERS frame that h2 would not send. Returns the number of the stream."""
        stream = stream or self.new_stream()
        frame = frames.HeadersFrame(stream, self.encoder.encode(headers), flags=flags)
        self.send_frame(frame)
        return stream

    def new_stream(self):
        stream = self.next_stream
        self.next_stream += 2
        return stream

    def data(self, stream, data, end=False):
        flags = ("END_STREAM",) if end else ()
        self.send_frame(frames.DataFrame(stream, data, flags=flags))

    def settle(self):
        """Waits until the service has processed all frames that this client sent."""
        self.settled = getattr(self, "settled", 0) + 1
        data = self.settled.to_bytes(8, "big")
        self.send_frame(frames.PingFrame(0, data))
        self.wait_for("pong", lambda e: e == ("pong", data))

    def read(self, timeout=EVENTUALLY):
        """Reads once. Returns `False` if nothing arrived in time."""
        if not self.socket.pending() and not select.select([self.socket], [], [], timeout)[0]:
            return False
        try:
            data = self.socket.recv(65536)
        except (OSError, ssl.SSLError) as error:
            raise Closed(str(error)) from None
        if not data:
            raise Closed("closed")
        self.receive(data)
        return True

    def receive(self, data):
        """Parses the frames of the service. h2 does not know the streams of raw frames, so this method does not use its state machine for them."""
        self.buffer = getattr(self, "buffer", b"") + data
        while len(self.buffer) >= 9:
            frame, length = frames.Frame.parse_frame_header(memoryview(self.buffer)[:9])
            if len(self.buffer) < 9 + length:
                return
            frame.parse_body(memoryview(self.buffer)[9 : 9 + length])
            self.buffer = self.buffer[9 + length :]
            self.handle(frame)

    def handle(self, frame):
        if isinstance(frame, frames.HeadersFrame):
            headers = self.h2.decoder.decode(frame.data)
            self.events.append(("headers", frame.stream_id, dict(headers)))
            if "END_STREAM" in frame.flags:
                self.events.append(("end", frame.stream_id))
        elif isinstance(frame, frames.DataFrame):
            self.bodies[frame.stream_id] = self.bodies.get(frame.stream_id, b"") + frame.data
            if frame.flow_controlled_length and self.reads_bodies:
                size = frame.flow_controlled_length
                update = frames.WindowUpdateFrame(0, size).serialize()
                if "END_STREAM" not in frame.flags:
                    update += frames.WindowUpdateFrame(frame.stream_id, size).serialize()
                self.send(update)
            if "END_STREAM" in frame.flags:
                self.events.append(("end", frame.stream_id))
        elif isinstance(frame, frames.RstStreamFrame):
            self.events.append(("reset", frame.stream_id, frame.error_code))
        elif isinstance(frame, frames.GoAwayFrame):
            self.events.append(("goaway", frame.last_stream_id, frame.error_code))
        elif isinstance(frame, frames.SettingsFrame) and "ACK" not in frame.flags:
            self.events.append(("settings", dict(frame.settings)))
            self.send_frame(frames.SettingsFrame(0, flags=("ACK",)))
        elif isinstance(frame, frames.PingFrame) and "ACK" not in frame.flags:
            self.send_frame(frames.PingFrame(0, frame.opaque_data, flags=("ACK",)))
        elif isinstance(frame, frames.PingFrame):
            self.events.append(("pong", frame.opaque_data))

    def wait_for(self, what, predicate):
        """Reads until an event satisfies the predicate, and returns the event."""
        deadline = time.monotonic() + EVENTUALLY
        while True:
            for event in self.events:
                if predicate(event):
                    return event
            if not self.read(max(0, deadline - time.monotonic())):
                raise AssertionError(f"timeout: {what}; events: {self.events}")

    def response(self, stream):
        """Returns the status, the headers and the body of a response."""
        headers = self.wait_for("response", lambda e: e[0] == "headers" and e[1] == stream)[2]
        self.wait_for("end of response", lambda e: e[0] in ("end", "reset") and e[1] == stream)
        return int(headers[":status"]), headers, self.bodies.get(stream, b"")

    def outcome(self, stream):
        """Returns the status of the response, or `reset CODE`, or `closed`, whatever comes first."""
        try:
            event = self.wait_for(
                "outcome", lambda e: e[0] == "goaway" and e[2] != 0 or e[0] in ("headers", "reset") and e[1] == stream
            )
        except Closed:
            return "closed"
        if event[0] == "headers":
            return int(event[2][":status"])
        return "closed" if event[0] == "goaway" else f"reset {event[2]}"

    def read_until_closed(self):
        """Reads until the service closes the connection."""
        deadline = time.monotonic() + EVENTUALLY
        try:
            while self.read(max(0, deadline - time.monotonic())):
                pass
        except Closed:
            return
        raise AssertionError(f"the connection stays open: {self.events}")

    def close(self):
        self.socket.close()


def request(path="/api/health", method="GET", authority="service.test", more=()):
    """Returns the headers of a request."""
    pseudo = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
    return [pair for pair in pseudo if pair[1] is not None] + list(more)
