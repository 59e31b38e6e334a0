//! Limits the number of open streams: in total, and for each credential, account and client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use latchmail_core::config;
use latchmail_core::metrics::{self, InProgress};
use latchmail_core::network::network;

/// The host or the owner of a stream has too many open streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many open streams")]
pub struct TooManyStreams;

/// The owner of a stream.
#[derive(Clone, Debug)]
pub struct StreamOwner {
    /// The id of the caller's credential at the mail server.
    pub credential: String,
    /// The id of the caller's account.
    pub account: String,
    /// The IP address of the client.
    pub client: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Credential(String),
    Account(String),
    Client(IpAddr),
}

/// The numbers of open streams.
#[derive(Debug)]
pub(crate) struct StreamLimits {
    config: config::Events,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_key: HashMap<Key, usize>,
}

/// Counts one open stream until it is dropped.
pub(crate) struct StreamPermit {
    limits: Arc<StreamLimits>,
    keys: Vec<Key>,
    _metric: InProgress,
}

impl StreamLimits {
    pub(crate) fn new(config: &config::Events) -> Self {
        Self {
            config: config.clone(),
            open: Mutex::default(),
        }
    }

    /// Counts a stream.
    pub(crate) fn open(
        self: &Arc<Self>,
        owner: &StreamOwner,
    ) -> Result<StreamPermit, TooManyStreams> {
        let limits = &self.config;
        let keys = [
            Some((
                Key::Credential(owner.credential.clone()),
                limits.streams_per_credential,
            )),
            Some((
                Key::Account(owner.account.clone()),
                limits.streams_per_account,
            )),
            owner
                .client
                .map(|client| (Key::Client(network(client)), limits.streams_per_client)),
        ];
        let keys: Vec<(Key, usize)> = keys.into_iter().flatten().collect();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |(key, limit): &(Key, usize)| open.by_key.get(key) >= Some(limit);
        if open.total >= limits.streams || keys.iter().any(is_full) {
            return Err(TooManyStreams);
        }
        open.total += 1;
        let keys: Vec<Key> = keys.into_iter().map(|(key, _)| key).collect();
        for key in &keys {
            *open.by_key.entry(key.clone()).or_default() += 1;
        }
        Ok(StreamPermit {
            limits: Arc::clone(self),
            keys,
            _metric: metrics::EVENT_STREAMS.begin(),
        })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let open = self.limits.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        for key in &self.keys {
            if let Some(count) = open.by_key.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    open.by_key.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(credential: &str, account: &str, client: u8) -> StreamOwner {
        StreamOwner {
            credential: credential.into(),
            account: account.into(),
            client: Some([127, 0, 0, client].into()),
        }
    }

    #[test]
    fn streams_are_limited_for_each_credential_account_and_client() {
        let limits = Arc::new(StreamLimits::new(&config::Events {
            streams: 6,
            streams_per_credential: 2,
            streams_per_account: 3,
            streams_per_client: 4,
            ..config::Events::default()
        }));
        let open = |credential, account, client| limits.open(&owner(credential, account, client));
        let first = open("a", "ada", 1).ok();
        let _second = open("a", "ada", 1).unwrap_or_else(|_| unreachable!());
        assert!(open("a", "ada", 2).is_err());
        let _third = open("b", "ada", 1).unwrap_or_else(|_| unreachable!());
        assert!(open("c", "ada", 2).is_err());
        let _fourth = open("d", "bob", 1).unwrap_or_else(|_| unreachable!());
        assert!(open("e", "bob", 1).is_err());
        let _fifth = open("e", "bob", 2).unwrap_or_else(|_| unreachable!());
        let _sixth = open("f", "cleo", 2).unwrap_or_else(|_| unreachable!());
        assert!(open("g", "dan", 3).is_err());
        drop(first);
        assert!(open("a", "ada", 1).is_ok());
        let open = limits.open.lock().unwrap();
        assert_eq!((open.total, open.by_key.len()), (5, 10));
    }
}
