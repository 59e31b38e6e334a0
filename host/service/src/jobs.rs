//! The handlers of jobs, and the access with which the service sends the messages of the outbox
//! without a request.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::Filter;
use latchmail_core::error::{Failure, Kind};
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_directory::credentials::index_keys::ServiceUse;
use latchmail_http::App;
use latchmail_jobs::{Handler, Jobs};
use latchmail_mailbox::outbox::{self, Departures};
use latchmail_mailbox::{Access, Error, Member};

/// Returns the jobs in the database.
pub(super) fn store(directory: &Directory, keys: Arc<Keyring>, clock: &Clock) -> Jobs {
    Jobs::new(directory.jobs.clone(), keys, clock.clone())
}

/// Returns the credentials of the service for a use.
pub(super) fn credentials(
    service_use: ServiceUse,
    directory: &Directory,
    auth: &Auth,
    clock: &Clock,
) -> ServiceCredentials {
    let credentials = directory.credentials.clone();
    ServiceCredentials::new(service_use, credentials, auth.keys(), clock.clone())
}

/// Returns the handlers of all kinds of jobs.
pub(super) fn handlers(app: &Arc<App>) -> Vec<Arc<dyn Handler>> {
    let access = SenderAccess {
        credentials: credentials(ServiceUse::Outbox, &app.directory, &app.auth, &app.clock),
        auth: Arc::clone(&app.auth),
    };
    let has_milter = app.config.results_filter() == Filter::Latchmail
        && !app.config.inbound.authserv_id.is_empty();
    let departures = Departures::new(Arc::clone(&app.outbox), Arc::new(access), has_milter);
    let snoozer: Arc<dyn Handler> = app.snoozer.clone();
    vec![Arc::new(departures), snoozer]
}

/// Finds the current access of accounts and members.
#[derive(Debug)]
struct SenderAccess {
    credentials: ServiceCredentials,
    auth: Arc<Auth>,
}

impl SenderAccess {
    async fn find(&self, account: &str, member: Option<&str>) -> Result<Option<Access>, Failure> {
        let Some(member) = member else {
            let credential = self.credentials.credential(account).await?;
            return Ok(credential.map(|credential| Access {
                account: account.to_owned(),
                credential,
                member: None,
            }));
        };
        let Some(address) = self.credentials.active_address(member).await? else {
            return Ok(None);
        };
        let shared = match self.auth.shared(account, member).await {
            Ok(shared) => shared,
            Err(failure) if failure.kind == Kind::NotFound => return Ok(None),
            Err(failure) => return Err(failure),
        };
        Ok(Some(Access {
            account: shared.account,
            credential: shared.mail,
            member: Some(Member {
                account: member.to_owned(),
                grants: shared.grants,
                origin: Origin {
                    actor: address,
                    ..Origin::default()
                },
                permit: None,
            }),
        }))
    }
}

impl outbox::SenderAccess for SenderAccess {
    fn access<'a>(
        &'a self,
        account: &'a str,
        member: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<Access>, Error>> {
        let found = self.find(account, member);
        found
            .map(|result| result.map_err(|failure| Error::Internal(failure.to_string())))
            .boxed()
    }
}
