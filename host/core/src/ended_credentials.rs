//! Stops the responses of credentials that end or are suspended while a response is being sent.
//!
//! A request checks its credential once, at its beginning. A download can take minutes after that
//! check. Therefore each streamed response registers its credentials here, and stops when one of
//! them ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time for which the end of a credential is remembered. A response that starts later belongs
/// to a request whose credential was checked after the end.
const MEMORY: Duration = Duration::from_mins(5);
/// Maximum number of remembered ends. If there are more, the earliest ends are forgotten.
const CAPACITY: usize = 10_000;

/// The credentials of responses in progress, and the credentials that ended a short time ago. The
/// keys are the ids of credentials at the mail server.
#[derive(Debug, Default)]
pub struct EndedCredentials(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: HashMap<String, Running>,
    ended: HashMap<String, Instant>,
}

/// The responses in progress of one credential.
#[derive(Debug, Default)]
struct Running {
    stop: CancellationToken,
    responses: usize,
}

/// The registration of a response. Dropping the registration removes it.
#[derive(Debug)]
pub struct Registration {
    state: Arc<Mutex<State>>,
    credential: String,
    stop: CancellationToken,
}

impl EndedCredentials {
    /// Registers a response with this credential. `checked_at` is the time at which the credential
    /// was valid. If the credential ended after that time, the response stops immediately.
    #[must_use]
    pub fn register(&self, credential: &str, checked_at: Instant) -> Registration {
        let mut state = lock(&self.0);
        let stop = if state
            .ended
            .get(credential)
            .is_some_and(|end| *end >= checked_at)
        {
            let stopped = CancellationToken::new();
            stopped.cancel();
            stopped
        } else {
            let running = state.running.entry(credential.to_owned()).or_default();
            running.responses += 1;
            running.stop.clone()
        };
        Registration {
            state: Arc::clone(&self.0),
            credential: credential.to_owned(),
            stop,
        }
    }

    /// Stops all responses with this credential.
    pub fn end(&self, credential: &str) {
        let now = Instant::now();
        let mut state = lock(&self.0);
        if let Some(running) = state.running.remove(credential) {
            running.stop.cancel();
        }
        if state.ended.len() >= CAPACITY {
            state
                .ended
                .retain(|_, end| now.duration_since(*end) < MEMORY);
        }
        if state.ended.len() >= CAPACITY {
            let earliest = state.ended.iter().min_by_key(|(_, end)| **end);
            let earliest = earliest.map(|(id, _)| id.clone());
            earliest.and_then(|id| state.ended.remove(&id));
        }
        state.ended.insert(credential.to_owned(), now);
    }
}

impl Registration {
    /// Returns the token that is cancelled when the credential ends.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.stop.is_cancelled() {
            return;
        }
        let mut state = lock(&self.state);
        if let Some(running) = state.running.get_mut(&self.credential) {
            running.responses -= 1;
            if running.responses == 0 {
                state.running.remove(&self.credential);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // The state is consistent even if a thread panicked while it had locked the state.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_responses_of_an_ended_credential_stop() {
        let credentials = EndedCredentials::default();
        let checked_at = Instant::now();
        let [first, second, other] = ["a", "a", "b"].map(|id| credentials.register(id, checked_at));
        credentials.end("a");
        assert!(first.stop().is_cancelled() && second.stop().is_cancelled());
        assert!(!other.stop().is_cancelled());
    }

    #[test]
    fn a_response_stops_if_its_credential_ended_after_the_check() {
        let credentials = EndedCredentials::default();
        let checked_at = Instant::now();
        credentials.end("a");
        assert!(credentials.register("a", checked_at).stop().is_cancelled());
        // The owner resumed a suspended grant, and a later request was checked.
        let later = Instant::now() + Duration::from_millis(1);
        assert!(!credentials.register("a", later).stop().is_cancelled());
    }

    #[test]
    fn a_completed_response_leaves_nothing() {
        let credentials = EndedCredentials::default();
        let (first, second) = (
            credentials.register("a", Instant::now()),
            credentials.register("a", Instant::now()),
        );
        drop(first);
        assert_eq!(lock(&credentials.0).running.len(), 1);
        drop(second);
        assert_eq!(lock(&credentials.0).running.len(), 0);
    }

    #[test]
    fn the_number_of_remembered_ends_is_limited() {
        let credentials = EndedCredentials::default();
        for id in 0..CAPACITY + 10 {
            credentials.end(&id.to_string());
        }
        assert_eq!(lock(&credentials.0).ended.len(), CAPACITY);
        assert!(!lock(&credentials.0).ended.contains_key("0"));
    }
}
