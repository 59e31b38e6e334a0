"""The interface `http-client` of the fake host.

A request without a defined response is denied, as if the operator did not permit the remote host.
"""

import re

from wit_world.imports import types

from .errors import check

_SET_BY_HOST = ("connection", "content-length", "host", "traceparent", "tracestate", "transfer-encoding")


class HttpClient:
    def __init__(self, host):
        self._host = host

    def send(self, request):
        valid = request.method not in ("CONNECT", "TRACE")
        valid = valid and re.fullmatch(r"https?://[^/?#@\s]+([/?#]\S*)?", request.url)
        allowed = not any(name.lower() in _SET_BY_HOST for name, _ in request.headers)
        check(valid and allowed, "remote_request_invalid", "The request is malformed")
        self._host.requests.append(request)
        response = self._host.responses.get((request.method, request.url))
        text = f"The module may not send requests to {request.url}"
        check(response is not None, "remote_host_not_allowed", text, types.Error_Denied)
        return response
