//! Versions of which most requests began to trap: each is reported, and rolled back where its operator chose so. What could not be rolled back is tried again
//! for as long as it serves and fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Life, Refusal, Surface};
use crate::api::bounded;
use crate::config::Breaker;
use crate::modules::Failing;

/// How long it waits before it tries again for the first time, and at most: each time it is twice as long.
const AGAIN: Duration = Duration::from_secs(2);
const AT_MOST: Duration = Duration::from_mins(5);

impl Life {
    /// Looks after those that `failing` tells of, for as long as it may.
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
                    "it could not be rolled back: {}",
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

/// Whether the same may be done later: the database answers again, or there is room for a sandbox.
fn may_pass(why: &Refusal) -> bool {
    match why {
        Refusal::Failed(_) | Refusal::Unusable(_) => true,
        Refusal::Unknown(_) | Refusal::Conflict(_) | Refusal::Consent(_) => false,
    }
}
