//! Records the networks from which API tokens, OAuth grants and app passwords are used. The first
//! use of a credential from a network is a security event. The log-ins of mail clients at the mail
//! server are not known here.

use std::net::IpAddr;
use std::sync::Arc;

use latchmail_core::caller::{Caller, Credential, Origin};
use latchmail_core::network::network;
use quick_cache::sync::Cache;

use super::{Auth, CACHE_CAPACITY};

/// The networks that are known to be recorded. A key contains the id of the app password and the
/// network.
#[derive(Clone, Debug)]
pub(super) struct Networks(Arc<Cache<String, ()>>);

impl Default for Networks {
    fn default() -> Self {
        Self(Arc::new(Cache::new(CACHE_CAPACITY)))
    }
}

impl Auth {
    /// Records that the credential of a caller was used by a client with this address. Does not
    /// wait for the database. A failure is logged.
    pub fn used_from(&self, caller: &Caller, client: IpAddr) {
        let kind = match &caller.credential {
            Credential::ApiToken { .. } => "API token",
            Credential::OAuth { .. } => "OAuth grant",
            Credential::AppPassword { .. } => "app password",
            Credential::Session { .. }
            | Credential::Handler { .. }
            | Credential::Operator { .. } => return,
        };
        let Some(id) = caller.mail.app_password_id() else {
            return;
        };
        let key = format!("{id} {}", network(client));
        let seen = self.networks.0.get(&key).is_some();
        if seen {
            return;
        }
        // Concurrent requests then start one task.
        self.networks.0.insert(key.clone(), ());
        let origin = Origin {
            actor: caller.address.clone(),
            credential: Some(id.to_owned()),
            client: Some(client),
            ..Origin::default()
        };
        let (account, id, now) = (caller.account.clone(), id.to_owned(), self.clock.now());
        let (events, networks) = (self.directory.events.clone(), self.networks.clone());
        drop(self.tasks.spawn(async move {
            if let Err(error) = events.used_from(&account, &id, kind, now, &origin).await {
                tracing::warn!(%error, "failed to record the network of a credential");
                networks.0.remove(&key);
            }
        }));
    }
}
