// Common code for modules in JavaScript: requests, failures, and the two functions of the contract,
// which are created from a list of routes.
//
// The host's interfaces are parameters, so that tests can use fake ones.

// A response that is not a success: `{"error": text, "code": code}` with a status.
// `code` is for programs, in lower-case words that `_` joins, and `text` is for people.
export class Failure extends Error {
  constructor(status, code, text, headers = []) {
    super(text);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

// A response with a status other than 200.
class Answer {
  constructor(status, value) {
    this.status = status;
    this.value = value;
  }
}

export const created = (value) => new Answer(201, value);

export const success = { success: true };

// Returns the contract's error `{tag, val}` with which a capability failed. Any other exception is
// a bug of the module. The function throws it again, the request ends, and the host logs the
// exception.
export function refusal(thrown) {
  if (typeof thrown?.payload?.tag === 'string') {
    return thrown.payload;
  }
  throw thrown;
}

// Returns the error that an error of a single function contains, for example of `setFlags`. Returns
// any other error unchanged.
const cause = (error) => (error.tag === 'failed' ? error.val : error);

// Returns the access of a route that accepts these kinds of credentials, each with its scope.
function accept(kinds) {
  return { tag: 'credentials', val: kinds.map(([kind, scope]) => ({ kind, scope })) };
}

// A route. By default it requires a web session and counts towards the rate limit `modules`.
// `bucket` is a key of `[limits]`. The name of the action is the operation.
const route = (method) => (path, action, { access = accept([['session']]), bucket = 'modules', maxBody = 0 } = {}) => ({
  action,
  wit: {
    method,
    path,
    operation: action.name,
    access,
    bucket,
    maxBody,
    body: 'bytes',
    blobFields: [],
    deadline: 30_000,
    options: [],
  },
});

export const get = route('GET');
export const post = route('POST');
export const patch = route('PATCH');
export const del = route('DELETE');

// Also allows API tokens with a scope, and OAuth access tokens if `oauth` is set.
export const scoped = (scope, { oauth = false } = {}) =>
  accept([['session'], ['api-token', scope], ...(oauth ? [['oauth', scope]] : [])]);

// Returns the two functions that every module exports. `host` contains the imported interfaces and
// is the first argument of each action. The interface `caller` is required.
export function serve(host, { name, version, description, routes }) {
  const actions = new Map(routes.map(({ wit, action }) => [wit.operation, action]));
  return {
    describe: () => ({
      name,
      version,
      routes: routes.map(({ wit }) => wit),
      description: JSON.stringify(description),
      options: [],
    }),

    handle(operation, request) {
      try {
        const answer = actions.get(operation)(host, new Request(request));
        return answer instanceof Answer ? json(answer.status, answer.value) : json(200, answer);
      } catch (error) {
        const { status, code, message, headers } = error instanceof Failure ? error : failed(cause(refusal(error)), host);
        return json(status, { error: message, code }, headers);
      }
    },
  };
}

// Outcomes of a handler, besides `undefined` for a call that is done: the host repeats the call
// after some seconds, or pauses the module for the mailbox, with a text for the operator.
export const retry = (seconds) => ({ tag: 'retry', val: seconds });
export const pause = (text) => ({ tag: 'failed', val: text });

// Returns the three functions of a module that acts without a request. `events` are sets of events,
// `{ types, folderRole }`: no `types` for all types, no `folderRole` for all folders. `onEvent`
// handles the events of all sets: its arguments are `host` and an event, whose `data` is an object.
// `timers` are `{ name, every, action }` or `{ name, cron, action }`. An action returns nothing or
// an outcome.
export function handlers(host, { events = [], onEvent, timers = [] }) {
  return {
    subscriptions: () => ({
      events: events.map(({ types = [], folderRole }) => ({ types, folderRole })),
      timers: timers.map(({ name, every, cron }) => ({ name, every, cron })),
    }),

    onEvent: (event) => outcome(() => onEvent(host, { ...event, data: JSON.parse(event.data) })),

    onTimer: (name) => outcome(() => timers.find((timer) => timer.name === name).action(host)),
  };
}

// Returns the outcome of an action. If an object no longer exists, the call is done. If a message
// has another version, the call is repeated at once. A capability that failed temporarily is tried
// again in a minute.
function outcome(act) {
  try {
    return act() ?? { tag: 'done' };
  } catch (error) {
    const { tag, val } = cause(refusal(error));
    if (tag === 'not-found') {
      return { tag: 'done' };
    }
    if (tag === 'version-mismatch') {
      return retry(1);
    }
    return val?.text === undefined ? retry(60) : pause(val.text);
  }
}

function json(status, value, headers = []) {
  return {
    status,
    headers: [...headers, ['content-type', 'application/json']],
    body: { tag: 'bytes', val: new TextEncoder().encode(JSON.stringify(value)) },
  };
}

// Converts a capability's error to a failure for the client.
function failed({ tag, val }, host) {
  switch (tag) {
    case 'not-found':
      return new Failure(404, 'not_found', 'Not found');
    case 'denied':
      return new Failure(403, val.code, val.text);
    case 'invalid':
    case 'rejected':
      return new Failure(400, val.code, val.text);
    case 'conflict':
      return new Failure(409, val.code, val.text);
    case 'too-large':
      return new Failure(413, val.code, val.text);
    case 'credential-refused':
      return host.caller.current().kind === 'session'
        ? new Failure(401, 'mail_session_expired', 'Mail session expired, please log in again')
        : new Failure(401, 'mail_credential_refused', 'This credential is no longer valid for mail access');
    case 'unavailable':
      return new Failure(
        503,
        'mail_server_unavailable',
        'Mail server is unavailable, please try again in a moment',
        [['retry-after', '2']],
      );
    case 'outcome-unknown':
      return new Failure(
        500,
        'outcome_unknown',
        'The operation was begun and its outcome is not known; check before you repeat it',
      );
    case 'over-quota':
      return new Failure(507, 'mailbox_full', 'The mailbox is full');
    default:
      return new Failure(500, 'internal_error', 'The operation could not be completed');
  }
}

// A request as an action receives it.
class Request {
  #wit;

  constructor(wit) {
    this.#wit = wit;
  }

  // Returns the first value of a query parameter.
  query(name) {
    return this.#wit.query.find(([key]) => key === name)?.[1];
  }

  // Returns a segment of the path as a number. Returns undefined unless the segment consists of
  // digits.
  number(name) {
    const text = this.#wit.path.find(([key]) => key === name)?.[1] ?? '';
    return /^[0-9]+$/.test(text) ? BigInt(text) : undefined;
  }

  // Returns the body, which must be a JSON object.
  json() {
    let value;
    try {
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.#wit.body.val);
      value = JSON.parse(text);
    } catch {
      throw new Failure(400, 'invalid_json_body', 'Invalid JSON body');
    }
    if (value === null || typeof value !== 'object' || Array.isArray(value)) {
      throw new Failure(400, 'invalid_field', 'The body must be an object');
    }
    return new Fields(value);
  }
}

// The fields of a JSON object. A field with the value null counts as absent. A field of another
// type causes a failure that names the field.
class Fields {
  #value;

  constructor(value) {
    this.#value = value;
  }

  string(name) {
    const value = this.#typed(name, 'string');
    // Half of a surrogate pair is not valid text.
    if (value?.isWellFormed() === false) {
      throw new Failure(400, 'invalid_json_body', 'Invalid JSON body');
    }
    return value;
  }

  boolean(name) {
    return this.#typed(name, 'boolean');
  }

  // Returns a field of any type. Returns undefined if the field is absent, and null for null.
  value(name) {
    return Object.hasOwn(this.#value, name) ? this.#value[name] : undefined;
  }

  // Returns a number without a fraction that every JSON client can represent exactly.
  integer(name) {
    const value = this.#typed(name, 'number');
    if (value !== undefined && !Number.isSafeInteger(value)) {
      throw new Failure(400, 'invalid_field', `${name} must be an integer`);
    }
    return value;
  }

  #typed(name, type) {
    const value = this.value(name);
    if (value === undefined || value === null) {
      return undefined;
    }
    if (typeof value !== type) {
      throw new Failure(400, 'invalid_field', `${name} must be a ${type}`);
    }
    return value;
  }
}
