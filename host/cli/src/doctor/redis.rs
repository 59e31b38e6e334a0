//! Checks that the server of `[redis]`, which stores the rate limits that several hosts share,
//! executes the scripts of the service.

use latchmail_core::config::Config;
use latchmail_redis::RedisBudgets;

use super::finding::Finding;

const CHECK: &str = "redis";

/// Connects to the server and executes a script. Returns `None` if no server is configured. A
/// problem is a warning, because each host then has its own rate limits.
pub(super) async fn check(config: &Config) -> Option<Finding> {
    let budgets = match RedisBudgets::new(&config.redis) {
        Ok(budgets) => budgets?,
        Err(error) => {
            let remedy = "correct `redis.url`; docs/configuration.md describes its form";
            return Some(Finding::failed(CHECK, error.to_string(), remedy));
        }
    };
    let server = budgets.server();
    Some(match budgets.check().await {
        Ok(time) => Finding::ok(
            CHECK,
            format!(
                "{server}: hosts share rate limits, round trip: {} µs",
                time.as_micros()
            ),
        ),
        Err(error) => Finding::warning(
            CHECK,
            format!("{server}: {error}; rate limits apply per host"),
            "start the server, and check `redis.url`, the password and the permissions of the user",
        ),
    })
}
