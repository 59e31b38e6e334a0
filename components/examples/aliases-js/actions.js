// The actions of the routes. An action receives the host's interfaces and the request, and returns
// the JSON of the response. An exception becomes a failure response (latchmail.js). The host
// decides which names are valid and who owns each address.

import { created, Failure, refusal, success } from './latchmail.js';
import { pronounceable } from './name.js';

// The error message if the caller has no alias with this id.
const MISSING = 'Alias not found or not owned by you';

// The maximum number of random names that are tried. A name has 64 random bits, so repeated
// collisions indicate a fault.
const ATTEMPTS = 3;

export function listAliases({ aliases }) {
  return {
    aliases: aliases.list().map((alias) => ({
      // Ids are below 2^53, so a JavaScript number can represent them exactly.
      id: Number(alias.id),
      address: alias.address,
      active: alias.active,
      created: sql(alias.createdAt),
      modified: sql(alias.modifiedAt),
    })),
  };
}

export function createAlias({ aliases }, request) {
  const body = request.json();
  const domain = body.string('domain');
  const name = body.string('name');
  if (!domain) {
    throw new Failure(400, 'domain_required', 'domain is required');
  }
  try {
    const made = name === undefined ? random(aliases, domain) : aliases.create(name, domain);
    return created({ alias: made.address, id: Number(made.id) });
  } catch (error) {
    const { tag, val } = refusal(error);
    switch (tag) {
      case 'invalid':
      case 'conflict':
        throw new Failure(400, val.code, val.text);
      case 'too-large':
        throw new Failure(409, val.code, val.text);
      default:
        throw error;
    }
  }
}

export function listAliasDomains({ aliases }) {
  return { domains: aliases.domains().map((domain) => ({ domain })) };
}

export function checkAlias({ aliases }, request) {
  const [name, domain] = [request.query('name'), request.query('domain')];
  if (!name || !domain) {
    throw new Failure(400, 'name_and_domain_required', 'name and domain query params required');
  }
  try {
    aliases.check(name, domain);
    return { available: true };
  } catch (error) {
    const { tag, val } = refusal(error);
    if (['invalid', 'conflict', 'too-large'].includes(tag)) {
      return { available: false, error: val.text };
    }
    throw error;
  }
}

export function updateAlias({ aliases }, request) {
  const id = named(request);
  let active;
  try {
    active = request.json().boolean('active');
  } catch (error) {
    if (!(error instanceof Failure)) {
      throw error;
    }
  }
  if (active === undefined) {
    throw new Failure(400, 'active_required', 'active (boolean) is required');
  }
  known(() => aliases.setActive(id, active));
  return success;
}

export function deleteAlias({ aliases }, request) {
  const id = named(request);
  known(() => aliases.delete(id));
  return success;
}

// Returns the alias id in the path. Responds with 400 unless the id is from 1 to 2^53 - 1.
function named(request) {
  const id = request.number('id');
  if (id === undefined || id < 1n || id >= 1n << 53n) {
    throw new Failure(400, 'invalid_alias_id', 'Invalid alias ID');
  }
  return id;
}

// Calls a function that needs an existing alias. Responds with 404 if the caller has no alias with
// this id.
function known(ask) {
  try {
    ask();
  } catch (error) {
    throw refusal(error).tag === 'not-found' ? new Failure(404, 'alias_not_found', MISSING) : error;
  }
}

function random(aliases, domain) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return aliases.create(pronounceable(), domain);
    } catch (error) {
      if (attempt === ATTEMPTS || refusal(error).tag !== 'conflict') {
        throw error;
      }
    }
  }
}

// Formats milliseconds since the epoch in UTC as `2026-11-20 08:00:00`. Returns undefined, which
// JSON omits, if there is no time.
function sql(instant) {
  return instant === undefined ? undefined : new Date(Number(instant)).toISOString().slice(0, 19).replace('T', ' ');
}
