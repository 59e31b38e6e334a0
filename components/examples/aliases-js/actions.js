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

// The maximum length of a note, in characters.
const MAX_NOTE = 200;

// A time in the format of RFC 3339.
const TIME = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

export function listAliases({ aliases }) {
  return {
    aliases: aliases.list().map((alias) => ({
      // Ids are below 2^53, so a JavaScript number can represent them exactly.
      id: Number(alias.id),
      address: alias.address,
      active: alias.active,
      created: sql(alias.createdAt),
      modified: sql(alias.modifiedAt),
      ...details(alias),
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
    return created({ alias: made.address, id: Number(made.id), ...details(made) });
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
  const changes = change(request);
  const alias = known(() => aliases.update(id, changes));
  return { success: true, ...details(alias) };
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

// Returns the changes in the body. A body without a known field has the same error as an invalid
// `active`, which was the only field of the first version of this route.
function change(request) {
  const required = new Failure(400, 'active_required', 'active (boolean) is required');
  let body;
  try {
    body = request.json();
  } catch (error) {
    throw error instanceof Failure ? required : error;
  }
  const [active, note, expiresAt] = ['active', 'note', 'expiresAt'].map((name) => body.value(name));
  const isEmpty = active === undefined && note === undefined && expiresAt === undefined;
  if (isEmpty || (active !== undefined && typeof active !== 'boolean')) {
    throw required;
  }
  return { active, note: note === undefined ? undefined : changedNote(note), expiry: expiry(expiresAt) };
}

// Returns the text of a note. An empty text removes the note.
function changedNote(note) {
  const isValid = typeof note === 'string' && note.isWellFormed() && [...note].length <= MAX_NOTE;
  if (note !== null && (!isValid || /[\u0000-\u001f\u007f-\u009f]/.test(note))) {
    throw new Failure(400, 'invalid_alias_note', 'note must be at most 200 characters without control characters');
  }
  return note ?? '';
}

// Returns when an alias expires. Returns undefined if the body does not change it.
function expiry(expiresAt) {
  if (expiresAt === undefined) {
    return undefined;
  }
  if (expiresAt === null) {
    return { tag: 'never' };
  }
  const at = typeof expiresAt === 'string' ? milliseconds(expiresAt) : undefined;
  if (at === undefined) {
    throw new Failure(400, 'invalid_expiry', 'expiresAt must be a time such as 2026-11-20T08:00:00Z');
  }
  return { tag: 'at', val: BigInt(at) };
}

// Returns a time in the format of RFC 3339 in milliseconds since the epoch, or undefined if the
// text is not such a time. `Date.parse` accepts more formats, and days that do not exist.
function milliseconds(text) {
  const parts = TIME.exec(text);
  if (parts === null) {
    return undefined;
  }
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map(Number);
  const [offsetHour, offsetMinute] = [Number(parts[9] ?? 0), Number(parts[10] ?? 0)];
  const time = new Date(0);
  time.setUTCFullYear(year, month - 1, day);
  const isDay = time.getUTCMonth() === month - 1 && time.getUTCDate() === day;
  if (!isDay || hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) {
    return undefined;
  }
  time.setUTCHours(hour, minute, second, Number((parts[7] ?? '').slice(0, 3).padEnd(3, '0')));
  const offset = (offsetHour * 60 + offsetMinute) * 60_000;
  return time.getTime() - (parts[8] === '-' ? -offset : offset);
}

// Calls a function that needs an existing alias. Responds with 404 if the caller has no alias with
// this id.
function known(ask) {
  try {
    return ask();
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

// The fields of an alias that all responses have.
function details(alias) {
  return {
    note: alias.note === '' ? null : alias.note,
    expiresAt: iso8601(alias.expiresAt),
    lastReceivedAt: iso8601(alias.lastReceivedAt),
    received: Number(alias.received),
  };
}

// Formats milliseconds since the epoch in UTC as `2026-11-20T08:00:00.000Z`. Returns null if there
// is no time.
function iso8601(instant) {
  return instant === undefined ? null : new Date(Number(instant)).toISOString();
}
