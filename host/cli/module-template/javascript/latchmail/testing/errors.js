// Errors of the fake host.

// Creates the error that a host function throws. `val` is `{ code, text }` for an error with a
// text.
export const hostError = (tag, val) => Object.assign(new Error(tag), { payload: { tag, val } });

// Throws an error with a text if `valid` is false.
export function check(valid, code, text, tag = 'invalid') {
  if (!valid) {
    throw hostError(tag, { code, text });
  }
}

// Calls `act`. An error other than `own` becomes the case `failed` of a function's own error type.
export function failing(own, act) {
  try {
    return act();
  } catch (error) {
    throw error.payload === undefined || error.payload.tag === own ? error : hostError('failed', error.payload);
  }
}
