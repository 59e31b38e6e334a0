// The interface `http-client` of the fake host. A request without a defined response is denied, as
// if the operator did not permit the remote host.

import { check } from './errors.js';

const SET_BY_HOST = /^(connection|content-length|host|traceparent|tracestate|transfer-encoding)$/i;

// Returns the functions. `responses` has the responses by `METHOD url`. Valid requests are added to
// `requests`.
export function httpClient(responses, requests) {
  return {
    send: (request) => {
      const { method, url, headers } = request;
      const valid = !['CONNECT', 'TRACE'].includes(method) && /^https?:\/\/[^/?#@\s]+([/?#]\S*)?$/.test(url);
      const allowed = !headers.some(([name]) => SET_BY_HOST.test(name));
      check(valid && allowed, 'remote_request_invalid', 'The request is malformed');
      requests.push(request);
      const response = responses.get(`${method} ${url}`);
      check(response, 'remote_host_not_allowed', `The module may not send requests to ${url}`, 'denied');
      return response;
    },
  };
}
