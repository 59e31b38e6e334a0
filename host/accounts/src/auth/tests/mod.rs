//! Tests of registration, sessions and credentials, with an SQLite directory and a simulated mail server.

mod credentials;
mod registration;
mod sessions;

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, header};
use latchmail_core::caller::{Credential, Origin, Proof};
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Kind;
use latchmail_core::secrets;
use latchmail_directory::Db;
use secrecy::ExposeSecret;
use sqlx::SqlitePool;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const PASSWORD: &str = "Correct1";
const START: Timestamp = Timestamp::from_millis(1_795_161_600_000);

/// An `Auth` with its own temporary folder.
struct Stage {
    auth: Auth,
    clock: Clock,
    folder: PathBuf,
    mail_server: SocketAddr,
}

impl Stage {
    async fn new() -> Self {
        Self::with("", mail_server().await).await
    }

    async fn with(registration: &str, mail_server: SocketAddr) -> Self {
        let folder =
            std::env::temp_dir().join(format!("latchmail-auth-{}", secrets::id().unwrap()));
        std::fs::create_dir(&folder).unwrap();
        let clock = Clock::manual(START);
        let auth = auth(&folder, registration, mail_server, &clock).await;
        Self {
            auth,
            clock,
            folder,
            mail_server,
        }
    }

    /// Starts the service again with these registration settings.
    async fn again(&mut self, registration: &str) {
        self.auth = auth(&self.folder, registration, self.mail_server, &self.clock).await;
    }

    async fn register(&self, name: &str) -> SignedIn {
        self.auth
            .register(form(name), &Origin::default())
            .await
            .unwrap()
            .signed_in
    }

    async fn sign_in(&self, address: &str, password: &str) -> Result<SignedIn, Failure> {
        self.auth
            .sign_in(address, password.into(), None, &Origin::default())
            .await
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
        let recognised = self.auth.recognise(&headers, [192, 0, 2, 1].into())?;
        self.auth.authenticate(recognised).await
    }

    fn pool(&self) -> &SqlitePool {
        match self.auth.directory.db() {
            Db::Sqlite(pool) => pool,
            Db::Postgres(_) => panic!("the stage is on SQLite"),
        }
    }

    async fn execute(&self, query: &'static str) {
        sqlx::query(query).execute(self.pool()).await.unwrap();
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
    mail_server: SocketAddr,
    clock: &Clock,
) -> Auth {
    let folder = folder.display();
    let text = format!(
        "base_url = 'https://mail.example'\nkey_file = '{folder}/key'\n\
         [database]\nurl = 'sqlite:{folder}/latchmail.db'\n\
         [imap]\naddress = '{mail_server}'\n\
         [registration]\ndomains = ['a.example', 'b.example']\n{registration}"
    );
    let config = Config::parse(&text, "test", HashMap::new()).unwrap();
    let directory = Directory::open(&config.database, &config.registration.domains)
        .await
        .unwrap();
    let mail = Arc::new(Mail::new(&config.imap, directory.db().clone()).unwrap());
    Auth::new(&config, directory, mail, clock.clone()).unwrap()
}

/// Returns the app password of a caller.
fn password(caller: &Caller) -> &str {
    match &caller.mail.proof {
        Proof::AppPassword(password) => password.expose_secret(),
        Proof::AccessToken { .. } => panic!("the proof is an access token"),
    }
}

/// Starts a mail server that sends a greeting and responds OK to every command.
async fn mail_server() -> SocketAddr {
    async fn serve(stream: TcpStream) -> std::io::Result<()> {
        let (read, mut write) = stream.into_split();
        write
            .write_all(b"* OK [CAPABILITY IMAP4rev1] ready\r\n")
            .await?;
        let mut lines = BufReader::new(read).lines();
        while let Some(line) = lines.next_line().await? {
            let tag = line.split(' ').next().unwrap_or("*");
            write
                .write_all(format!("{tag} OK done\r\n").as_bytes())
                .await?;
        }
        Ok(())
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
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
