// A fake host for tests. The tests run without a service and without WebAssembly.
//
// The fake host has the functions of `caller`, `mailbox` and `store` that most modules need. Add
// other functions that your module needs. The service checks the access to a route; the fake host
// does not.

// Creates the error that a host function throws.
export const hostError = (tag, val) => Object.assign(new Error(tag), { payload: { tag, val } });

export class FakeHost {
  #address = 'ada@example.test';
  #uids = 0n;
  #accounts = new Map();

  // Signs in as another account.
  signIn(address) {
    this.#address = address;
  }

  // Delivers a message to the caller's inbox and returns its id.
  deliver({ from = 'grace@example.org', subject = '', preview = '', flags = [] }) {
    this.#uids += 1n;
    const { inbox } = this.#account();
    inbox.push({
      uid: this.#uids,
      seq: inbox.length + 1,
      from: [{ name: '', address: from }],
      to: [{ name: '', address: this.#address }],
      subject,
      date: 1_700_000_000_000n,
      flags,
      size: 1000n,
      preview,
      threadId: `thread${this.#uids}`,
    });
    return this.#uids;
  }

  caller = {
    current: () => ({ kind: 'session', address: this.#address, admin: false, scopes: [] }),
  };

  mailbox = {
    listMessages: (folder, { offset, limit }) => {
      if (folder !== 'INBOX') {
        throw hostError('not-found');
      }
      const { inbox } = this.#account();
      return { messages: inbox.toReversed().slice(offset, offset + limit), total: inbox.length };
    },
  };

  store = {
    get: (key) => this.#account().values.get(key),
    set: (key, value) => {
      if (value.length > 65_536) {
        throw hostError('too-large', 'a value has at most 65,536 bytes');
      }
      this.#account().values.set(key, value);
    },
    delete: (key) => {
      this.#account().values.delete(key);
    },
    list: (prefix, after, limit) => {
      const keys = [...this.#account().values.keys()].sort();
      return keys.filter((key) => key.startsWith(prefix) && (after === undefined || key > after)).slice(0, limit);
    },
  };

  #account() {
    if (!this.#accounts.has(this.#address)) {
      this.#accounts.set(this.#address, { inbox: [], values: new Map() });
    }
    return this.#accounts.get(this.#address);
  }
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
      if (paths[path]?.[method]?.operationId !== operation) {
        throw new Error(`the description has no operation ${operation} for ${method} ${path}`);
      }
    }
  }

  get = (path) => this.#call('get', path);
  post = (path, body) => this.#call('post', path, body);
  put = (path, body) => this.#call('put', path, body);
  patch = (path, body) => this.#call('patch', path, body);
  delete = (path) => this.#call('delete', path);

  #call(method, target, body) {
    const { pathname, searchParams } = new URL(target, 'http://localhost');
    for (const route of this.#routes) {
      const path = route.method === method ? segments(route.path, pathname) : undefined;
      if (path) {
        const bytes = new TextEncoder().encode(body === undefined ? '' : JSON.stringify(body));
        if (bytes.length > route.maxBody) {
          return { status: 413, json: { error: 'The body is too large' } };
        }
        const request = { id: 'test', path, query: [...searchParams], headers: [], body: { tag: 'bytes', val: bytes }, blobs: [] };
        const response = this.#module.handle(route.operation, request);
        return { status: response.status, json: JSON.parse(new TextDecoder().decode(response.body.val)) };
      }
    }
    return { status: 404, json: { error: 'There is no such route' } };
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
