//! The circuit breaker. It logs failing versions of modules. With `breaker = "roll-back"` in the
//! policy of a module, it also rolls the module back. A failed rollback is repeated while the same
//! version handles requests and is failing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::config::Breaker;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::error::Error;
use super::router::Router;
use super::state::ModuleManager;
use crate::log_line::to_log_line;
use crate::modules::Failing;

/// The first delay and the maximum delay before a failed rollback is repeated. The delay doubles
/// after each attempt.
const FIRST_DELAY: Duration = Duration::from_secs(2);
const MAX_DELAY: Duration = Duration::from_mins(5);

impl ModuleManager {
    /// Handles the failing versions that the channel `failing` reports, until the channel is
    /// closed.
    pub async fn run_circuit_breaker(
        &self,
        router: &dyn Router,
        mut failing: mpsc::UnboundedReceiver<Failing>,
    ) {
        let mut retries: BTreeMap<Arc<str>, Failing> = BTreeMap::new();
        let mut delay = FIRST_DELAY;
        loop {
            let batch: Vec<Failing> = tokio::select! {
                received = failing.recv() => match received {
                    Some(one) if self.report_failing(&one) == Some(Breaker::RollBack) => vec![one],
                    Some(_) => continue,
                    None => return,
                },
                () = sleep(delay), if !retries.is_empty() => {
                    delay = delay.saturating_mul(2).min(MAX_DELAY);
                    std::mem::take(&mut retries).into_values().collect()
                }
            };
            for one in batch {
                let (module, digest) = (&one.module, &one.digest);
                let Err(error) = self.roll_back_if_failing(router, module, digest).await else {
                    continue;
                };
                tracing::error!(
                    module = &**module,
                    "failed to roll back a module: {}",
                    to_log_line(&error.to_string())
                );
                if is_retryable(&error) {
                    retries.insert(Arc::clone(module), one);
                }
            }
            if retries.is_empty() {
                delay = FIRST_DELAY;
            }
        }
    }

    /// Logs that a version of a module is failing, and returns the action in the module's policy.
    /// Returns `None` if this version no longer handles requests.
    fn report_failing(&self, failing: &Failing) -> Option<Breaker> {
        let entries = self.entries.current();
        let module = entries.get(&*failing.module)?.serving.as_ref()?;
        if module.digest() != &*failing.digest {
            return None;
        }
        let last = module.health().last.map(|(_, error)| error);
        tracing::error!(
            module = &*failing.module,
            digest = &*failing.digest,
            "most of the latest requests of a module failed; last error: {}",
            last.unwrap_or_default()
        );
        Some(module.policy().breaker)
    }
}

/// Returns whether a rollback that failed with `error` can succeed after a delay. For example, the
/// database or the sandbox pool can become available.
fn is_retryable(error: &Error) -> bool {
    match error {
        Error::Directory(_) | Error::Invalid(_) => true,
        Error::NotFound(_) | Error::Conflict(_) | Error::ConsentRequired(_) => false,
    }
}
