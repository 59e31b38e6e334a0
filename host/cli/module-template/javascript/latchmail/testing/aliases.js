// The interface `aliases` of the fake host. The platform domains are `example.test` and
// `second.test`.

import { check, hostError } from './errors.js';

const DOMAINS = ['example.test', 'second.test'];
const RESERVED = ['abuse', 'admin', 'hostmaster', 'postmaster', 'webmaster'];

// Returns the functions. `account` returns the caller's account, and throws an error if the caller
// does not have the scope. `addresses` returns all addresses that are taken. `now` returns the
// time.
export function aliases(account, addresses, now) {
  let ids = 0n;

  // Returns the address of a new alias.
  const newAddress = (name, domain) => {
    const allowed = 'You do not have permission to use this domain';
    check(DOMAINS.includes(domain.toLowerCase()), 'alias_domain_not_allowed', allowed);
    const form = 'The name must be 2 to 64 lower-case letters, digits, dots, hyphens and underscores';
    check(/^[a-z0-9._-]{2,64}$/.test(name), 'invalid_alias_name', form);
    check(!RESERVED.includes(name), 'invalid_alias_name', 'This name is reserved');
    const address = `${name}@${domain.toLowerCase()}`;
    check(!addresses().includes(address), 'alias_taken', `${address} is already taken`, 'conflict');
    return address;
  };

  const position = (list, id) => {
    const found = list.findIndex((alias) => alias.id === id);
    if (found < 0) {
      throw hostError('not-found');
    }
    return found;
  };

  return {
    list: () => account('aliases:read').aliases.toSorted((a, b) => (a.address < b.address ? -1 : 1)),
    domains: () => account('aliases:read') && DOMAINS,
    check: (name, domain) => {
      account('aliases:read');
      newAddress(name, domain);
    },
    create: (name, domain) => {
      const { aliases } = account('aliases:write');
      const address = newAddress(name, domain);
      ids += 1n;
      const alias = { id: ids, address, active: true, createdAt: now(), modifiedAt: now(), note: '', received: 0n };
      aliases.push(alias);
      return alias;
    },
    update: (id, { active, note, expiry }) => {
      const { aliases } = account('aliases:write');
      const index = position(aliases, id);
      const text = 'note must be at most 200 characters without control characters';
      check([...(note ?? '')].length <= 200 && !/\p{Cc}/u.test(note ?? ''), 'invalid_alias_note', text);
      const old = aliases[index];
      const expiresAt = expiry === undefined ? old.expiresAt : expiry.val;
      aliases[index] = { ...old, active: active ?? old.active, note: note ?? old.note, expiresAt, modifiedAt: now() };
      return aliases[index];
    },
    delete: (id) => {
      const { aliases } = account('aliases:write');
      aliases.splice(position(aliases, id), 1);
    },
  };
}
