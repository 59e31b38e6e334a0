//! The runners and the handlers of jobs, and the access with which the service sends messages of
//! the outbox and events without a request.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_callbacks::Deliverer;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::Filter;
use latchmail_core::error::{Failure, Kind};
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_directory::credentials::index_keys::ServiceUse;
use latchmail_export::ExportJobs;
use latchmail_handlers::HandlerJobs;
use latchmail_http::App;
use latchmail_jobs::{Handler, Jobs, Limits, Runner};
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

/// Returns the access to mailboxes without a request, with the credentials of the service for a
/// use.
pub(super) fn access(
    service_use: ServiceUse,
    directory: &Directory,
    auth: &Arc<Auth>,
    clock: &Clock,
) -> Arc<dyn outbox::SenderAccess> {
    Arc::new(SenderAccess {
        credentials: credentials(service_use, directory, auth, clock),
        auth: Arc::clone(auth),
    })
}

/// Starts the runners of jobs: one for events to other servers, one for calls of modules, one for
/// exports and one for the deletion of accounts, which can all be slow, and one for all other jobs.
pub(super) fn start(app: &Arc<App>) -> [Runner; 5] {
    let access = access(ServiceUse::Outbox, &app.directory, &app.auth, &app.clock);
    let has_milter = app.config.results_filter() == Filter::Latchmail
        && !app.config.inbound.authserv_id.is_empty();
    let departures = Departures::new(Arc::clone(&app.outbox), access, has_milter);
    let snoozer: Arc<dyn Handler> = app.snoozer.clone();
    let holds: Arc<dyn Handler> = app.holds.clone();
    let removals: Arc<dyn Handler> = app.removals.clone();
    let deliverer = Deliverer(Arc::clone(&app.webhooks));
    let handlers = HandlerJobs(Arc::clone(&app.handlers));
    let start =
        |handlers, limits| Runner::start(Arc::clone(&app.jobs), &app.host_id, handlers, limits);
    [
        start(
            vec![Arc::new(departures), snoozer, holds],
            Limits::default(),
        ),
        start(vec![Arc::new(deliverer)], latchmail_callbacks::LIMITS),
        start(vec![Arc::new(handlers)], latchmail_handlers::LIMITS),
        start(
            vec![Arc::new(ExportJobs(Arc::clone(&app.exports)))],
            latchmail_export::LIMITS,
        ),
        start(
            vec![removals],
            Limits {
                running: 4,
                ..Limits::default()
            },
        ),
    ]
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
            return Ok(
                credential.map(|credential| Access::of_owner(account.to_owned(), credential))
            );
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
            grant: None,
            is_person: false,
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
