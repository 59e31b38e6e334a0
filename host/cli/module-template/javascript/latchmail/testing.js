// A fake host for tests. The tests run without a service and without WebAssembly.
//
// The fake host has the functions of `caller`, `mailbox` and `store` that most modules need. Each
// function returns the results and throws the errors of the service's host. Add other functions
// that your module needs. The service checks the access to a route; the fake host checks only the
// calls of functions.

const SCOPES = ['mail:read', 'mail:send', 'mail:write', 'aliases:read', 'aliases:write', 'profile:read'];

// The conditions of `listMessages`.
const FILTERS = {
  unread: ({ flags }) => !flags.includes('\\Seen'),
  flagged: ({ flags }) => flags.includes('\\Flagged'),
};

// Creates the error that a host function throws. `val` is `{ code, text }` for an error with a
// text.
export const hostError = (tag, val) => Object.assign(new Error(tag), { payload: { tag, val } });

export class FakeHost {
  #caller;
  #uids = 0n;
  #accounts = new Map();

  constructor() {
    this.signIn('ada@example.test');
  }

  // Signs in as another account, with a web session.
  signIn(address) {
    this.#caller = { kind: 'session', address, admin: false, scopes: SCOPES };
  }

  // Changes the credential to an API token with these scopes, for example `['mail:read']`.
  useToken(scopes) {
    this.#caller = { ...this.#caller, kind: 'api-token', scopes: SCOPES.filter((scope) => scopes.includes(scope)) };
  }

  // Signs out. Calls then have no caller, as in a public route.
  signOut() {
    this.#caller = { kind: 'anonymous', address: '', admin: false, scopes: [] };
  }

  // Delivers a message to the caller's inbox and returns its id.
  deliver({ from = 'grace@example.org', to = [this.#caller.address], subject = '', text = '', flags = [], date = 1_795_161_600_000n }) {
    this.#uids += 1n;
    const { inbox } = this.#account();
    inbox.push({
      uid: this.#uids,
      seq: inbox.length + 1,
      from: [address(from)],
      to: to.map(address),
      subject,
      date,
      flags,
      size: BigInt(subject.length + text.length),
      preview: text.split(/\s+/).join(' ').trim().slice(0, 256),
      threadId: `thread${this.#uids}`,
    });
    return this.#uids;
  }

  caller = {
    current: () => this.#caller,
  };

  mailbox = {
    listMessages: ({ folder, filters, start, limit }) => {
      const { inbox } = this.#account('mail:read');
      check(limit >= 1 && limit <= 100, 'invalid_paging_parameters', 'limit must be between 1 and 100');
      for (const filter of filters) {
        check(Object.hasOwn(FILTERS, filter), 'invalid_field', `There is no filter "${filter}"`);
      }
      if (folder !== 'INBOX') {
        throw hostError('not-found');
      }
      const matching = inbox.filter((message) => filters.every((filter) => FILTERS[filter](message))).toReversed();
      const prefix = `${filters.toSorted()} `;
      let rest = matching;
      if (start.tag === 'cursor') {
        const seq = start.val.startsWith(prefix) ? Number(start.val.slice(prefix.length)) : 0;
        check(seq > 0, 'invalid_cursor', 'Invalid cursor');
        rest = matching.filter((message) => message.seq < seq);
      } else {
        rest = matching.slice(start.val);
      }
      const messages = rest.slice(0, limit);
      const next = rest.length > limit ? `${prefix}${messages.at(-1).seq}` : undefined;
      return { messages, total: matching.length, next };
    },
  };

  store = {
    get: (key) => this.#values(key).get(key),
    set: (key, value) => {
      const values = this.#values(key);
      if (value.length > 65_536) {
        throw hostError('too-large', { code: 'store_value_too_large', text: 'A value is at most 65536 bytes' });
      }
      values.set(key, value);
    },
    delete: (key) => {
      this.#values(key).delete(key);
    },
    compareAndSet: (key, expected, value) => {
      const current = this.#values(key).get(key);
      if (current === undefined || expected === undefined ? current !== expected : `${current}` !== `${expected}`) {
        return false;
      }
      (value === undefined ? this.store.delete : this.store.set)(key, value);
      return true;
    },
    list: (prefix, after, limit) => {
      const { values } = this.#account();
      check(limit >= 1 && limit <= 1000, 'invalid_paging_parameters', 'limit must be 1 to 1000');
      const follows = (key) => key.startsWith(prefix) && (after === undefined || bytewise(key, after) > 0);
      return [...values.keys()].filter(follows).sort(bytewise).slice(0, limit);
    },
  };

  // Returns the caller's values. Throws an error if the key is not valid.
  #values(key) {
    const { values } = this.#account();
    const valid = key !== '' && new TextEncoder().encode(key).length <= 256 && !/\p{Cc}/u.test(key);
    check(valid, 'store_key_invalid', 'A key is 1 to 256 bytes without control characters');
    return values;
  }

  // Returns the caller's account. Throws an error if there is no caller or the scope is missing.
  #account(scope) {
    const { address, scopes } = this.#caller;
    if (address === '') {
      throw hostError('denied', { code: 'no_caller', text: 'There is no caller' });
    }
    if (scope !== undefined && !scopes.includes(scope)) {
      const text = `This credential is missing the "${scope}" scope`;
      throw hostError('denied', { code: 'missing_scope', text });
    }
    if (!this.#accounts.has(address)) {
      this.#accounts.set(address, { inbox: [], values: new Map() });
    }
    return this.#accounts.get(address);
  }
}

function check(valid, code, text) {
  if (!valid) {
    throw hostError('invalid', { code, text });
  }
}

// Parses `address` or `Name <address>`.
function address(text) {
  const [, name, address] = /^(.*?)\s*<(.*)>$/.exec(text) ?? [text, '', text];
  return { name, address };
}

// Compares texts in the order of their bytes in UTF-8.
function bytewise(a, b) {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

// Serves a module's routes: `new Service(create(host)).get('/api/v1/notes/hello')` returns
// `{ status, json }`.
export class Service {
  #module;
  #routes;

  constructor(module) {
    this.#module = module;
    const { routes, description } = module.describe();
    this.#routes = routes;
    const { paths } = JSON.parse(description);
    for (const { method, path, operation, bucket } of routes) {
      // The service rejects a module if a route has no rate limit, or if the routes and the API
      // description differ.
      if (bucket === '') {
        throw new Error(`${method} ${path} has no rate limit`);
      }
      if (paths[path]?.[method.toLowerCase()]?.operationId !== operation) {
        throw new Error(`the description has no operation ${operation} for ${method} ${path}`);
      }
    }
  }

  get = (path) => this.#call('GET', path);
  post = (path, body) => this.#call('POST', path, body);
  put = (path, body) => this.#call('PUT', path, body);
  patch = (path, body) => this.#call('PATCH', path, body);
  delete = (path) => this.#call('DELETE', path);

  #call(method, target, body) {
    const { pathname, searchParams } = new URL(target, 'http://localhost');
    for (const route of this.#routes) {
      const path = route.method === method ? segments(route.path, pathname) : undefined;
      if (path) {
        const bytes = new TextEncoder().encode(body === undefined ? '' : JSON.stringify(body));
        if (bytes.length > route.maxBody) {
          return { status: 413, json: { error: 'The body is too large', code: 'body_too_large' } };
        }
        const request = { id: 'test', path, query: [...searchParams], headers: [], body: { tag: 'bytes', val: bytes }, blobs: [] };
        const response = this.#module.handle(route.operation, request);
        return { status: response.status, json: JSON.parse(new TextDecoder().decode(response.body.val)) };
      }
    }
    return { status: 404, json: { error: 'There is no such route', code: 'route_not_found' } };
  }
}

// Returns the values of the named segments, or undefined if the path does not match the route.
function segments(pattern, pathname) {
  const [names, values] = [pattern.split('/'), pathname.split('/')];
  if (names.length !== values.length) {
    return undefined;
  }
  const found = [];
  for (const [index, name] of names.entries()) {
    if (/^\{.*\}$/.test(name)) {
      found.push([name.slice(1, -1), decodeURIComponent(values[index])]);
    } else if (name !== values[index]) {
      return undefined;
    }
  }
  return found;
}
