// The interface `profile` of the fake host. An account's initial password is `Correct-Horse-7`.

import { check } from './errors.js';

const SESSION_ONLY = 'This endpoint is only available to a signed-in session, not to API or OAuth tokens';
const YEAR = 365.25 * 24 * 3600 * 1000;

// Returns the functions. `account` returns the caller's account, and throws an error if the caller
// does not have the scope. `caller` returns the caller, and `now` the time.
export function profile(account, caller, now) {
  const session = () => {
    const found = account();
    check(caller().kind === 'session', 'session_required', SESSION_ONLY, 'denied');
    return found;
  };
  return {
    get: () => account('profile:read').profile,
    update: (changes) => {
      const found = session();
      const given = Object.entries(changes).filter(([, value]) => value !== undefined);
      const changed = { ...found.profile, ...Object.fromEntries(given) };
      for (const name of [changed.firstName, changed.lastName]) {
        check([...name].length >= 1 && [...name].length <= 64, 'invalid_name', 'A name must be 1 to 64 characters');
      }
      const born = new Date(`${changed.dob}T00:00:00Z`);
      const exists = !Number.isNaN(born.valueOf()) && born.toISOString().startsWith(changed.dob);
      check(exists, 'invalid_date_of_birth', 'dob must be a date of the form YYYY-MM-DD');
      const age = Number(now()) - born.valueOf();
      check(age >= 0, 'invalid_date_of_birth', 'dob must not be in the future');
      check(age >= 13 * YEAR, 'too_young', 'You must be at least 13 years old');
      found.profile = changed;
    },
    changePassword: (current, password) => {
      const found = session();
      const strong = /[A-Z]/.test(password) && /[a-z]/.test(password) && /[0-9]/.test(password);
      const text = 'The password must have 8 characters, an upper-case letter, a lower-case letter and a digit';
      check(password.length >= 8 && strong, 'invalid_password', text);
      if (current !== found.password) {
        return 'wrong';
      }
      found.password = password;
      return current === password ? 'same' : 'changed';
    },
  };
}
