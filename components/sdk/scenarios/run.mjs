// Runs the scenarios with the fake host of a JavaScript project.
//
// Argument: the folder of the project, which `latchmail module new` created. A scenario is skipped
// if the fake host does not have a function that the scenario calls. The last line of the output
// has the names of these functions.

import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const project = resolve(process.argv[2]);
const { Blob, FakeHost } = await import(join(project, 'latchmail/testing.js'));
const contract = join(project, 'wit/deps/latchmail-host');
const folder = import.meta.dirname;

const camel = (name) => name.replace(/-./g, (part) => part[1].toUpperCase());
const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const camelKeys = (value) => Object.fromEntries(Object.entries(value).map(([name, one]) => [camel(name), one]));
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

// The values of missing fields that must not be empty, by the names of their records.
const DEFAULTS = { search: { syntax: 'operators', sort: 'newest' } };

// The texts of the contract by the names of its files, and its types by `file.name` and `name`.
const interfaces = new Map();
const types = new Map();
for (const name of readdirSync(contract)) {
  const file = name.replace('.wit', '');
  const wit = readFileSync(join(contract, name), 'utf8').replace(/\/\/.*/g, '');
  interfaces.set(file, wit);
  for (const [, kind, name, body] of wit.matchAll(/(record|variant|enum) ([a-z-]+) \{([^}]*)\}/g)) {
    // A field of a record is `name: type`. A case of a variant or an enum is `name` or
    // `name(type)`.
    const members = [...body.matchAll(/^ *%?([a-z-]+)(?:: (.*)|\((.*)\))?,$/gm)];
    const type = { kind, file, members: members.map(([, name, field, val]) => [name, field ?? val]) };
    types.set(`${file}.${name}`, type).set(name, type);
  }
  for (const [, name, alias] of wit.matchAll(/type ([a-z-]+) = (.*);/g)) {
    types.set(`${file}.${name}`, alias).set(name, alias);
  }
}

// Returns the parameters of a function: pairs of a name and a type.
function parameters(call) {
  const [file, name] = call.split('.');
  const list = new RegExp(`^    %?${name}: func\\((.*?)\\)( ->|;)`, 'm').exec(interfaces.get(file))[1];
  return [...list.matchAll(/%?([a-z-]+): ([^,]+)/g)].map(([, name, type]) => [name, type]);
}

// Converts an argument to the form that a function in JavaScript takes. A missing value is empty.
function argument(value, type, file) {
  const [, outer, inner] = /^(\w+)<(.*)>$/.exec(type) ?? [];
  if (outer === 'option') {
    return value === undefined || value === null ? undefined : argument(value, inner, file);
  }
  if (type === 'list<u8>') {
    return new TextEncoder().encode(value);
  }
  if (outer === 'list') {
    return (value ?? []).map((one) => argument(one, inner, file));
  }
  if (type === 'u64' || type === 's64') {
    return BigInt(value);
  }
  if (type === 'blob') {
    return new Blob(value);
  }
  const defined = types.get(`${file}.${type}`) ?? types.get(type);
  if (typeof defined === 'string') {
    return argument(value, defined, file);
  }
  if (defined?.kind === 'record') {
    const given = { ...DEFAULTS[type], ...value };
    const field = ([name, type]) => [camel(name), argument(given[name], type, defined.file)];
    return Object.fromEntries(defined.members.map(field));
  }
  if (defined?.kind === 'variant') {
    const [tag, val] = isObject(value) ? Object.entries(value)[0] : [value];
    const [, type] = defined.members.find(([name]) => name === tag);
    return { tag, val: type && argument(val, type, defined.file) };
  }
  return value ?? { string: '', bool: false }[type] ?? defined?.members[0][0];
}

// Converts a result to JSON in the names of the contract.
function json(value) {
  if (value === undefined) {
    return null;
  }
  if (typeof value === 'bigint') {
    return Number(value);
  }
  if (value instanceof Uint8Array) {
    return new TextDecoder().decode(value);
  }
  if (value instanceof Blob) {
    return json(value.read(0n, Number(value.size())));
  }
  if (Array.isArray(value)) {
    return value.map(json);
  }
  if (isObject(value) && 'tag' in value) {
    return value.val === undefined ? value.tag : { [value.tag]: json(value.val) };
  }
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, one]) => [kebab(name), json(one)])) : value;
}

// The values of the placeholders in a scenario.
class Values {
  #values = new Map([['n', '1'], ['domain', 'example.test'], ['password', 'Correct-Horse-7']]);

  set = (name, value) => this.#values.set(name, value);

  fill = (value) => {
    if (typeof value === 'string') {
      const whole = /^\{([a-z-]+)\}$/.exec(value)?.[1];
      return this.#values.get(whole) ?? value.replace(/\{([a-z-]+)\}/g, (text, name) => this.#values.get(name) ?? text);
    }
    if (isObject(value) && 'repeat' in value) {
      return value.repeat.repeat(value.times);
    }
    if (Array.isArray(value)) {
      return value.map(this.fill);
    }
    return isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.fill(one)])) : value;
  };

  // Returns whether a result is as expected, and sets the values of new placeholders.
  matches = (expected, actual) => {
    if (typeof expected === 'string') {
      const whole = /^\{([a-z-]+)\}$/.exec(expected)?.[1];
      if (whole && !this.#values.has(whole)) {
        this.#values.set(whole, actual);
        return true;
      }
      // The name of a case also stands for a case with a value.
      return this.fill(expected) === actual || (isObject(actual) && Object.keys(actual).join() === expected);
    }
    if (Array.isArray(expected)) {
      return actual?.length === expected.length && expected.every((one, index) => this.matches(one, actual[index]));
    }
    if (isObject(expected)) {
      return isObject(actual) && Object.keys(expected).every((name) => this.matches(expected[name], actual[name] ?? null));
    }
    return expected === actual;
  };
}

function signIn(host, caller, first) {
  const named = typeof caller === 'string' ? caller : (caller?.account ?? first);
  host.signIn(`${named}@example.test`);
  if (caller === 'anonymous') {
    host.signOut();
  } else if (caller?.scopes) {
    host.useToken(caller.scopes);
  }
}

// Runs a scenario and returns the first difference. Does not run it if the fake host lacks
// functions, and returns the list of these functions.
function run({ accounts = ['ada'], settings = {}, messages = [], as, steps }) {
  const host = new FakeHost();
  host.settings = new Map(Object.entries(settings));
  const values = new Values();
  accounts.forEach((name) => values.set(name, `${name}@example.test`));
  const implementation = (call) => {
    const [file, name] = call.split('.');
    return host[camel(file)]?.[camel(name)];
  };
  const called = steps.filter(({ call }) => call !== undefined);
  const missing = called.map(({ call }) => call).filter((call) => !implementation(call));
  if (missing.length > 0) {
    return missing;
  }
  accounts.forEach((name) => host.signIn(values.fill(`{${name}}`)));
  const deliver = (unfilled) => {
    const message = values.fill(unfilled);
    signIn(host, accounts[0], accounts[0]);
    const files = (message.files ?? []).map(camelKeys);
    host.deliver({ to: [], ...camelKeys(message), files, date: BigInt(message.date ?? 0) });
  };
  messages.forEach(deliver);
  for (const [index, step] of steps.entries()) {
    if (step.deliver) {
      deliver(step.deliver);
    }
    if (step.advance) {
      host.now += BigInt(step.advance * 1000);
    }
    if (step.call === undefined) {
      continue;
    }
    signIn(host, step.as ?? as, accounts[0]);
    const given = values.fill(step.with ?? {});
    const taken = parameters(step.call).map(([name, type]) => argument(given[name], type, step.call.split('.')[0]));
    let actual;
    try {
      actual = { returns: json(implementation(step.call)(...taken)) };
    } catch (error) {
      if (error.payload === undefined) {
        throw error;
      }
      actual = { fails: json(error.payload) };
    }
    const expected = 'returns' in step ? { returns: step.returns } : { fails: step.fails };
    if (!values.matches(expected, actual)) {
      return `step ${index}, ${step.call}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`;
    }
  }
  return undefined;
}

let passed = 0;
let skipped = 0;
const missing = new Set();
for (const file of readdirSync(folder).filter((name) => name.endsWith('.json')).sort()) {
  for (const scenario of JSON.parse(readFileSync(join(folder, file), 'utf8'))) {
    const difference = run(scenario);
    if (difference === undefined) {
      passed += 1;
    } else if (Array.isArray(difference)) {
      skipped += 1;
      difference.forEach((name) => missing.add(name));
    } else {
      console.error(`${file}: ${scenario.name}, ${difference}`);
      process.exitCode = 1;
    }
  }
}
console.log(`${passed} scenarios passed. ${skipped} were skipped, because the fake host has no:`);
console.log([...missing].sort().join(', '));
