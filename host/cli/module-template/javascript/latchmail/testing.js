// A fake host for tests. The tests run without a service and without WebAssembly.
//
// The fake host has the functions of `aliases`, `caller`, `config`, `http-client`, `log`,
// `mailbox`, `outbox`, `profile` and `store`. Each function returns the results and throws the
// errors of the service's host. Add other functions that your module needs. The service checks the
// access to a route; the fake host checks only the calls of functions.

import { aliases } from './testing/aliases.js';
import { check } from './testing/errors.js';
import { httpClient } from './testing/http-client.js';
import { Mail } from './testing/mail.js';
import { mailbox } from './testing/mailbox.js';
import { outbox } from './testing/outbox.js';
import { profile } from './testing/profile.js';

export { Blob } from './testing/blob.js';
export { hostError } from './testing/errors.js';

const SCOPES = ['mail:read', 'mail:send', 'mail:write', 'aliases:read', 'aliases:write', 'profile:read'];

export class FakeHost {
  // The settings of the module, by their keys.
  settings = new Map();
  // The lines that the module wrote to the log: `[level, message]`.
  lines = [];
  // The time of the host, in milliseconds.
  now = 1_795_161_600_000n;
  // The responses of other servers, by `METHOD url`, for example `GET https://api.example.com/`.
  responses = new Map();
  // The valid requests that the module sent to other servers.
  requests = [];
  #caller;
  #isHandler = false;
  #accounts = new Map();

  constructor() {
    this.signIn('ada@example.test');
  }

  // Signs in as another account, with a web session.
  signIn(address) {
    this.#caller = { kind: 'session', address, admin: false, scopes: SCOPES };
    this.#isHandler = false;
    if (!this.#accounts.has(address)) {
      this.#accounts.set(address, {
        address,
        password: 'Correct-Horse-7',
        profile: { address, firstName: 'Ada', lastName: 'Lovelace', dob: '1990-12-10', createdAt: this.now },
        mail: new Mail(),
        values: new Map(),
        aliases: [],
        sent: [],
        uploads: new Map(),
      });
    }
  }

  // Changes the credential to an API token with these scopes, for example `['mail:read']`.
  useToken(scopes) {
    this.#caller = { ...this.#caller, kind: 'api-token', scopes: SCOPES.filter((scope) => scopes.includes(scope)) };
    this.#isHandler = false;
  }

  // Signs out. Calls then have no caller, as in a public route.
  signOut() {
    this.#caller = { kind: 'anonymous', address: '', admin: false, scopes: [] };
    this.#isHandler = false;
  }

  // Delivers a message to the caller and returns its id. `message` can also have `cc`, `html`,
  // `messageId`, `inReplyTo`, `files` (`{ filename, contentType, content }`) and `folder`, which is
  // the inbox by default.
  deliver(message) {
    const { mail, address } = this.#account();
    return mail.put({ from: 'grace@example.org', to: [address], date: this.now, ...message }).uid;
  }

  // The messages that the caller sent, oldest first: `{ draft, files, key }`.
  get sent() {
    return this.#account().sent;
  }

  // Sets the quota of the caller's mailbox, in the form of `getQuota`. The fake host does not
  // enforce the quota.
  setQuota(quota) {
    this.#account().mail.quota = quota;
  }

  // Makes the caller that of a handler, with these scopes.
  useHandler(scopes) {
    this.#caller = { ...this.#caller, kind: 'session', scopes: SCOPES.filter((scope) => scopes.includes(scope)) };
    this.#isHandler = true;
  }

  caller = {
    current: () => this.#caller,
    isHandler: () => this.#isHandler,
  };

  config = {
    get: (key) => this.settings.get(key),
  };

  log = {
    write: (level, message) => {
      this.lines.push([level, message]);
    },
  };

  httpClient = httpClient(this.responses, this.requests);

  mailbox = mailbox(
    (scope) => this.#account(scope),
    () => this.now,
  );

  outbox = outbox(
    (scope) => this.#account(scope),
    () => this.now,
  );

  aliases = aliases(
    (scope) => this.#account(scope),
    () => [...this.#accounts.values()].flatMap((one) => [one.address, ...one.aliases.map(({ address }) => address)]),
    () => this.now,
  );

  profile = profile(
    (scope) => this.#account(scope),
    () => this.#caller,
    () => this.now,
  );

  store = {
    get: (key) => this.#values(key).get(key),
    set: (key, value) => {
      const values = this.#values(key);
      check(value.length <= 65_536, 'store_value_too_large', 'A value is at most 65536 bytes', 'too-large');
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
    check(address !== '', 'no_caller', 'There is no caller', 'denied');
    const allowed = scope === undefined || scopes.includes(scope);
    check(allowed, 'missing_scope', `This credential is missing the "${scope}" scope`, 'denied');
    return this.#accounts.get(address);
  }
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
