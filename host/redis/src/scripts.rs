//! The scripts that run in the server. Each script reads and writes all budgets of a request in one
//! step.
//!
//! The value of a budget is the time at which the budget is completely refilled, as two integers:
//! seconds since the Unix epoch, and nanoseconds. A number of Lua is a double, which cannot store
//! nanoseconds since the epoch exactly. So the scripts calculate with the time until the budget is
//! refilled. A key expires when its budget is refilled, because a missing key is a full budget. The
//! expiry is rounded up to the next millisecond.
//!
//! The scripts use the clock of the server, so differences between the clocks of hosts have no
//! effect. If the clock of the server was set back, a time can be further in the future than any
//! request causes. Then the budget counts as full, because otherwise its client would be blocked.

/// Adds two Lua functions to a script. They read and write the time until a budget is refilled, in
/// nanoseconds.
macro_rules! with_functions {
    ($script:literal) => {
        concat!(
            "local time = redis.call('TIME')
local seconds, nanoseconds = tonumber(time[1]), tonumber(time[2]) * 1000
local function read(key, most)
  local value = redis.call('GET', key)
  if not value then return 0 end
  local s, n = string.match(value, '^(%d+) (%d+)$')
  local full_in = (tonumber(s) - seconds) * 1e9 + tonumber(n) - nanoseconds
  if full_in < 0 or full_in > most then return 0 end
  return full_in
end
local function write(key, full_in)
  local at = nanoseconds + full_in
  local value = string.format('%.0f %.0f', seconds + math.floor(at / 1e9), at % 1e9)
  redis.call('SET', key, value, 'PX', math.ceil(full_in / 1e6) + 1)
end
",
            $script
        )
    };
}

/// Counts one request towards each budget in `KEYS`, or towards no budget if a budget rejects the
/// request. `ARGV` contains two numbers for each budget: the interval and the tolerance, in
/// nanoseconds. Returns two integers: 0 and the time until the first budget is refilled, or the
/// index of the rejecting budget (from 1) and the time until this budget is refilled.
pub const TAKE: &str = with_functions!(
    "local full_in = {}
for i, key in ipairs(KEYS) do
  local interval, tolerance = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local before = read(key, interval + tolerance)
  if before > tolerance then return {i, before} end
  full_in[i] = before + interval
end
for i, key in ipairs(KEYS) do write(key, full_in[i]) end
return {0, full_in[1] or 0}
"
);

/// Reverts [`TAKE`], with the same arguments. A budget that is refilled stays refilled.
pub const GIVE_BACK: &str = with_functions!(
    "for i, key in ipairs(KEYS) do
  local interval, tolerance = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local before = read(key, interval + tolerance)
  if before > interval then
    write(key, before - interval)
  elseif before > 0 then
    redis.call('DEL', key)
  end
end
return 0
"
);
