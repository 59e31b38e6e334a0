//! Tests of registration, sessions and credentials, with an SQLite directory and a simulated mail
//! server.

mod credentials;
mod registration;
mod sessions;

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::{self, BoxFuture, FutureExt as _};
use http::{HeaderValue, header};
use latchmail_core::caller::{Credential, MailCredential, Origin, Proof};
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Kind;
use latchmail_core::secrets;
use latchmail_directory::db::{Db, Tx};
use secrecy::{ExposeSecret, SecretString};
use sqlx::SqlitePool;

use super::*;
use crate::mail_server::Error;

const PASSWORD: &str = "Correct1";
const START: Timestamp = Timestamp::from_millis(1_795_161_600_000);

/// A mail server that records the sessions to end.
#[derive(Debug, Default)]
struct FakeMailServer {
    /// Whether the mail server is unreachable.
    down: bool,
    /// Ids of the app passwords whose sessions were ended.
    ended: Mutex<Vec<String>>,
}

impl FakeMailServer {
    fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap().clone()
    }
}

impl MailServer for FakeMailServer {
    fn ping(&self) -> BoxFuture<'_, Result<(), Error>> {
        let result = if self.down {
            Err(Error::Unavailable("down".into()))
        } else {
            Ok(())
        };
        future::ready(result).boxed()
    }

    fn end_sessions<'a>(&'a self, app_passwords: &'a [String]) -> BoxFuture<'a, ()> {
        self.ended
            .lock()
            .unwrap()
            .extend(app_passwords.iter().cloned());
        future::ready(()).boxed()
    }

    fn end_user_sessions<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        future::ready(()).boxed()
    }

    fn close_connections(&self, _: &str) {}

    fn folder_uid_validity<'a>(
        &'a self,
        _: &'a str,
        _: MailCredential,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        future::ready(Ok(None)).boxed()
    }
}

/// An `Auth` with its own temporary folder.
struct Stage {
    auth: Auth,
    clock: Clock,
    folder: PathBuf,
    mail_server: Arc<FakeMailServer>,
}

impl Stage {
    async fn new() -> Self {
        Self::with(FakeMailServer::default()).await
    }

    async fn with(mail_server: FakeMailServer) -> Self {
        let folder =
            std::env::temp_dir().join(format!("latchmail-auth-{}", secrets::id().unwrap()));
        std::fs::create_dir(&folder).unwrap();
        let clock = Clock::manual(START);
        let mail_server = Arc::new(mail_server);
        let auth = auth(&folder, "", &mail_server, &clock).await;
        Self {
            auth,
            clock,
            folder,
            mail_server,
        }
    }

    /// Starts the service again with these registration settings.
    async fn again(&mut self, registration: &str) {
        self.auth = auth(&self.folder, registration, &self.mail_server, &self.clock).await;
    }

    async fn register(&self, name: &str) -> SignedIn {
        self.auth
            .registration
            .register(form(name), &Origin::default())
            .await
            .unwrap()
            .signed_in
    }

    async fn sign_in(&self, address: &str, password: &str) -> Result<SignedIn, Failure> {
        self.auth
            .sessions
            .sign_in(address, password.into(), None, &Origin::default())
            .await
    }

    async fn refresh(&self, token: &SecretString) -> Result<Tokens, Failure> {
        let origin = Origin::default();
        self.auth.sessions.refresh(token, &origin).await
    }

    async fn caller(&self, tokens: &Tokens) -> Result<Caller, Failure> {
        self.authenticate(&format!("Bearer {}", tokens.access.expose_secret()))
            .await
    }

    async fn authenticate(&self, header: &str) -> Result<Caller, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::AUTHORIZATION,
            HeaderValue::from_str(header).unwrap(),
        );
        let credential = self
            .auth
            .parse_credential(&headers, [192, 0, 2, 1].into())
            .await?;
        self.auth.authenticate(credential).await
    }

    fn pool(&self) -> &SqlitePool {
        match self.auth.directory.db() {
            Db::Sqlite(pool, _) => pool,
            Db::Postgres(_) => panic!("the stage is on SQLite"),
        }
    }

    async fn execute(&self, query: &'static str) {
        let mut tx = self.auth.directory.db().begin().await.unwrap();
        let Tx::Sqlite(connection) = &mut tx else {
            panic!("the stage is on SQLite");
        };
        sqlx::query(query).execute(&mut **connection).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn texts(&self, query: &'static str) -> Vec<String> {
        sqlx::query_scalar(query)
            .fetch_all(self.pool())
            .await
            .unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn auth(
    folder: &std::path::Path,
    registration: &str,
    mail_server: &Arc<FakeMailServer>,
    clock: &Clock,
) -> Auth {
    let folder = folder.display();
    let text = format!(
        "base_url = 'https://mail.example'\nkey_file = '{folder}/key'\n\
         [database]\nurl = 'sqlite:{folder}/latchmail.db'\n\
         [registration]\ndomains = ['a.example', 'b.example']\n{registration}"
    );
    let config = Config::parse(&text, "test", HashMap::new()).unwrap();
    let directory = Directory::open(&config.database(), &config.registration.domains)
        .await
        .unwrap();
    let keys = Arc::new(Keyring::load(&config.key_file).unwrap());
    Auth::new(
        &config,
        directory,
        mail_server.clone(),
        clock.clone(),
        keys,
        None,
    )
    .unwrap()
}

/// Returns the app password of a caller.
fn password(caller: &Caller) -> &str {
    match &caller.mail.proof {
        Proof::AppPassword(password) => password.expose_secret(),
        Proof::AccessToken { .. } => panic!("the proof is an access token"),
    }
}

fn form(name: &str) -> Form {
    Form {
        local_part: name.into(),
        domain: "a.example".into(),
        password: PASSWORD.into(),
        first_name: " Ada ".into(),
        last_name: "Lovelace".into(),
        dob: "1990-12-10".into(),
    }
}

/// Returns the kind and the text of a failure.
fn refused<T: Debug>(result: Result<T, Failure>) -> (Kind, String) {
    let failure = result.unwrap_err();
    (failure.kind, failure.text.into_owned())
}

fn answer(kind: Kind, text: &str) -> (Kind, String) {
    (kind, text.to_owned())
}

fn days(days: u64) -> Duration {
    Duration::from_hours(24 * days)
}
