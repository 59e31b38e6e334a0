//! The circuit breaker: logs failing versions of modules and rolls them back if their policy says so. A failed rollback is repeated while the version
//! serves and fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::config::Breaker;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Life, Refusal, Surface};
use crate::api::bounded;
use crate::modules::Failing;

/// The first and the maximum pause before a failed rollback is repeated. The pause doubles each time.
const AGAIN: Duration = Duration::from_secs(2);
const AT_MOST: Duration = Duration::from_mins(5);

impl Life {
    /// Handles the failing versions from `failing` until the channel is closed.
    pub async fn look_after(
        &self,
        surface: &dyn Surface,
        mut failing: mpsc::UnboundedReceiver<Failing>,
    ) {
        let mut left: BTreeMap<Arc<str>, Failing> = BTreeMap::new();
        let mut pause = AGAIN;
        loop {
            let told: Vec<Failing> = tokio::select! {
                told = failing.recv() => match told {
                    Some(told) if self.failing(&told) == Some(Breaker::RollBack) => vec![told],
                    Some(_) => continue,
                    None => return,
                },
                () = sleep(pause), if !left.is_empty() => {
                    pause = pause.saturating_mul(2).min(AT_MOST);
                    std::mem::take(&mut left).into_values().collect()
                }
            };
            for one in told {
                let (module, digest) = (&one.module, &one.digest);
                let Err(why) = self.roll_back_from(surface, module, digest).await else {
                    continue;
                };
                tracing::error!(
                    module = &**module,
                    "failed to roll back a module: {}",
                    bounded(&why.to_string())
                );
                if may_pass(&why) {
                    left.insert(Arc::clone(module), one);
                }
            }
            if left.is_empty() {
                pause = AGAIN;
            }
        }
    }
}

/// Returns whether a later attempt may succeed, because the database or the sandbox pool is available again.
fn may_pass(why: &Refusal) -> bool {
    match why {
        Refusal::Failed(_) | Refusal::Unusable(_) => true,
        Refusal::Unknown(_) | Refusal::Conflict(_) | Refusal::Consent(_) => false,
    }
}
