//! The current rights of the callers of streams, and the listener for notices.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_accounts::auth::Auth;
use latchmail_core::caller::{Origin, Proof};
use latchmail_core::clock::Clock;
use latchmail_core::config::{Config, Events};
use latchmail_core::error::{Failure, Kind, StartError};
use latchmail_core::policy::ActingGrant;
use latchmail_directory::Directory;
use latchmail_directory::deliveries::ProcessedBounces;
use latchmail_events::{self as events, CurrentRights, Notices};
use latchmail_http::App;
use latchmail_mailbox::{Access, Error, Member};
use latchmail_transport as transport;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The interval at which reports of failed deliveries are read.
const BOUNCES_INTERVAL: Duration = Duration::from_secs(10);

/// Finds the current rights in the database, and checks the tokens of an external authorization
/// server.
#[derive(Debug)]
pub(super) struct Rights {
    pub(super) directory: Directory,
    pub(super) auth: Arc<Auth>,
    pub(super) clock: Clock,
}

impl Rights {
    async fn find(&self, access: &Access) -> Result<Option<events::Rights>, Error> {
        let until = match &access.credential.proof {
            Proof::AppPassword(_) => self.app_password_until(&access.credential.id).await?,
            Proof::AccessToken { token, .. } => {
                let checked = self.auth.external_token_until(&access.account, token);
                checked.await.map_err(|failure| internal(&failure))?
            }
        };
        let Some(until) = until else {
            return Ok(None);
        };
        let Some(member) = &access.member else {
            return self.without_member(access.clone(), until).await;
        };
        let shared = match self.auth.shared(&access.account, &member.account).await {
            Ok(shared) => shared,
            Err(failure) if failure.kind == Kind::NotFound => return Ok(None),
            Err(failure) => return Err(internal(&failure)),
        };
        let access = Access {
            account: shared.account,
            credential: shared.mail,
            member: Some(Member {
                account: member.account.clone(),
                grants: shared.grants,
                origin: Origin {
                    actor: member.origin.actor.clone(),
                    ..Origin::default()
                },
                permit: None,
            }),
            grant: None,
            is_person: access.is_person,
        };
        Ok(Some(events::Rights { access, until }))
    }

    /// Returns the rights of an access to the caller's own mailbox, with the current policy.
    async fn without_member(
        &self,
        mut access: Access,
        mut until: Instant,
    ) -> Result<Option<events::Rights>, Error> {
        if let Some(grant) = &access.grant {
            let policies = &self.directory.policies;
            let standing = policies.standing(&grant.app_password_id).await?;
            let Some(standing) = standing else {
                return Ok(None);
            };
            if let Some(policy) = &standing.policy {
                if policy.is_over(self.clock.now()) {
                    return Ok(None);
                }
                let end = policy.until.map(|end| self.clock.instant(end));
                until = end.map_or(until, |end| until.min(end));
            }
            access.grant = Some(Arc::new(ActingGrant {
                policy: standing.policy,
                ..ActingGrant::clone(grant)
            }));
        }
        Ok(Some(events::Rights { access, until }))
    }

    async fn app_password_until(&self, id: &str) -> Result<Option<Instant>, Error> {
        let credentials = &self.directory.credentials;
        let until = credentials.valid_until(id, self.clock.now()).await?;
        Ok(until.map(|until| self.clock.instant(until)))
    }
}

fn internal(failure: &Failure) -> Error {
    Error::Internal(failure.to_string())
}

impl CurrentRights for Rights {
    fn current<'a>(
        &'a self,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Option<events::Rights>, Error>> {
        self.find(access).boxed()
    }

    fn valid_until<'a>(
        &'a self,
        credential: &'a str,
    ) -> BoxFuture<'a, Result<Option<Instant>, Error>> {
        self.app_password_until(credential).boxed()
    }
}

/// Returns the configuration with the number of streams that the number of connections allows.
pub(super) fn config(config: &Config) -> Events {
    let configured = config.events.streams;
    let allowed = transport::max_streams(config.http.max_connections);
    if allowed < configured {
        tracing::warn!(
            configured,
            allowed,
            "`events.streams` exceeds three quarters of the connections: raise `http.max_connections`"
        );
    }
    Events {
        streams: configured.min(allowed),
        ..config.events.clone()
    }
}

/// Starts the listener for notices and the task that processes notices, if they are configured.
pub(super) async fn listen(
    app: &Arc<App>,
) -> Result<Option<(transport::Running, JoinHandle<()>)>, StartError> {
    let config = &app.config.events;
    let Some(address) = config.listen else {
        return Ok(None);
    };
    let notices = Arc::new(Notices::new(
        config,
        Arc::clone(&app.watcher),
        app.directory.hosts.clone(),
        app.config.sign_in.clone(),
    )?);
    let server = latchmail_http::notices::listen(app, Arc::clone(&notices), address).await?;
    Ok(Some((server, tokio::spawn(notices.run()))))
}

/// Adds failed deliveries to the change logs periodically, until the task is aborted.
pub(super) async fn log_bounces(app: Arc<App>) {
    let mut state = ProcessedBounces::default();
    loop {
        if let Err(error) = app.directory.deliveries.log_bounces(&mut state).await {
            tracing::warn!(%error, "failed to read the reports of failed deliveries");
        }
        sleep(BOUNCES_INTERVAL).await;
    }
}
