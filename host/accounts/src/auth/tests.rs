//! Tests of sign-in, refresh and sign-out with an SQLite directory and a simulated mail server.

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

#[tokio::test]
async fn who_registers_is_signed_in() {
    let stage = Stage::new().await;
    let curl = Origin {
        user_agent: Some("curl/8.16.0".into()),
        ..Origin::default()
    };
    let registered = stage.auth.register(form("Ada.L"), &curl).await.unwrap();
    assert_eq!(registered.first_name, "Ada");
    assert_eq!(registered.signed_in.address, "ada.l@a.example");
    assert!(!registered.signed_in.admin);
    let caller = stage.caller(&registered.signed_in.tokens).await.unwrap();
    assert_eq!(caller.address, "ada.l@a.example");
    assert_eq!(caller.mail.username, "ada.l@a.example");
    assert_eq!(password(&caller).len(), 32);
    assert!(matches!(caller.credential, Credential::Session { .. }));
    assert_eq!(
        stage.texts("SELECT secret_hash FROM app_passwords").await,
        [secrets::sha256_hex(password(&caller))]
    );
    assert_eq!(
        stage.texts("SELECT label FROM app_passwords").await,
        ["curl"]
    );
}

#[tokio::test]
async fn nothing_secret_is_kept_in_the_clear() {
    let stage = Stage::new().await;
    let signed_in = stage.register("ada").await;
    let caller = stage.caller(&signed_in.tokens).await.unwrap();
    let file = stage.folder.join("copy.db");
    sqlx::query("VACUUM INTO $1")
        .bind(file.to_str().unwrap())
        .execute(stage.pool())
        .await
        .unwrap();
    let bytes = std::fs::read(file).unwrap();
    for secret in [
        PASSWORD,
        password(&caller),
        signed_in.tokens.refresh.expose_secret(),
        signed_in.tokens.access.expose_secret(),
    ] {
        let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!found);
    }
    assert!(!format!("{signed_in:?} {:?} {caller:?}", stage.auth).contains("Correct1"));
}

#[tokio::test]
async fn an_address_is_registered_once_in_whatever_case() {
    let stage = Stage::new().await;
    stage.register("ada").await;
    let taken = answer(Kind::Conflict, "This email address is already taken");
    assert_eq!(
        refused(stage.auth.register(form("ADA"), &Origin::default()).await),
        taken
    );
    let elsewhere = Form {
        domain: "B.Example".into(),
        ..form("ada")
    };
    let registered = stage
        .auth
        .register(elsewhere, &Origin::default())
        .await
        .unwrap();
    assert_eq!(registered.signed_in.address, "ada@b.example");
}

#[tokio::test]
async fn the_first_field_that_will_not_do_is_named() {
    let stage = Stage::new().await;
    let bad = || Form {
        local_part: "x".into(),
        domain: "other.example".into(),
        password: "weak".into(),
        first_name: String::new(),
        last_name: "x".repeat(65),
        dob: "tomorrow".into(),
    };
    let named = |local_part: &str| Form {
        local_part: local_part.into(),
        ..bad()
    };
    for (form, text) in [
        (bad(), "Username must be at least 2 characters"),
        (
            named("ada"),
            "domain must be one of the registration domains: a.example, b.example",
        ),
        (
            Form {
                domain: "a.example".into(),
                ..named("ada")
            },
            "password must be at least 8 characters",
        ),
        (
            Form {
                first_name: String::new(),
                ..form("ada")
            },
            "first_name must be 1 to 64 characters",
        ),
        (
            Form {
                last_name: "x".repeat(65),
                ..form("ada")
            },
            "last_name must be 1 to 64 characters",
        ),
        (
            Form {
                dob: "2026-11-20".into(),
                ..form("ada")
            },
            "dob must be at least 13 years ago",
        ),
    ] {
        assert_eq!(
            refused(stage.auth.register(form, &Origin::default()).await),
            answer(Kind::Invalid, text)
        );
    }
    assert!(stage.texts("SELECT address FROM accounts").await.is_empty());
}

#[tokio::test]
async fn availability_tells_what_registration_would() {
    let mut stage = Stage::new().await;
    stage.register("ada").await;
    let unavailable = |reason| Availability::Unavailable { reason };
    let available = Availability::Available {
        address: "grace.h@a.example".into(),
    };
    for (name, expected) in [
        ("Grace.H", available),
        ("ADA", unavailable("This email address is already taken")),
        ("g", unavailable("Username must be at least 2 characters")),
        ("postmaster", unavailable("Username is reserved")),
    ] {
        assert_eq!(
            stage.auth.availability(name).await.unwrap(),
            expected,
            "{name}"
        );
    }
    stage.again("enabled = false").await;
    let closed = "Registration is currently disabled";
    assert_eq!(
        stage.auth.availability("grace").await.unwrap(),
        unavailable(closed)
    );
    assert_eq!(
        refused(stage.auth.register(form("grace"), &Origin::default()).await),
        answer(Kind::Forbidden, closed)
    );
}

#[tokio::test]
async fn whoever_is_not_the_active_owner_of_the_password_gets_one_answer() {
    let stage = Stage::new().await;
    stage.register("ada").await;
    assert!(stage.sign_in("ada@a.example", PASSWORD).await.is_ok());
    let invalid = answer(Kind::Unauthorized, "Invalid credentials");
    assert_eq!(
        refused(stage.sign_in("ada@a.example", "correct1").await),
        invalid
    );
    assert_eq!(
        refused(stage.sign_in("eve@a.example", PASSWORD).await),
        invalid
    );
    stage.execute("UPDATE accounts SET active = FALSE").await;
    assert_eq!(
        refused(stage.sign_in("ada@a.example", PASSWORD).await),
        invalid
    );
}

#[tokio::test]
async fn without_a_mail_server_the_right_password_is_told_to_wait_and_nothing_begins() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let stage = Stage::with("", address).await;
    stage.register("ada").await;
    let (status, text) = refused(stage.sign_in("ada@a.example", PASSWORD).await);
    assert_eq!(
        (status, text.as_str()),
        (
            Kind::Unavailable,
            "Mail server is initializing, please try again in a moment"
        )
    );
    let invalid = answer(Kind::Unauthorized, "Invalid credentials");
    assert_eq!(
        refused(stage.sign_in("ada@a.example", "Wrong111").await),
        invalid
    );
    assert_eq!(stage.texts("SELECT sid FROM sessions").await.len(), 1);
}

#[tokio::test]
async fn an_access_token_is_good_for_15_minutes() {
    let stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    stage.clock.advance(Duration::from_millis(15 * 60_000 - 1));
    assert!(stage.caller(&tokens).await.is_ok());
    stage.clock.advance(Duration::from_millis(1));
    let expired = answer(Kind::Unauthorized, "Invalid or expired access token");
    assert_eq!(refused(stage.caller(&tokens).await), expired);
}

#[tokio::test]
async fn refreshing_keeps_the_session_and_its_app_password() {
    let stage = Stage::new().await;
    let first = stage.register("ada").await.tokens;
    let before = stage.caller(&first).await.unwrap();
    let second = stage
        .auth
        .refresh(&first.refresh, &Origin::default())
        .await
        .unwrap();
    let after = stage.caller(&second).await.unwrap();
    assert_eq!(after.credential, before.credential);
    assert_eq!(after.mail.id, before.mail.id);
    assert!(
        stage.caller(&first).await.is_ok(),
        "the first access token lives out its time"
    );
}

#[tokio::test]
async fn a_refresh_token_is_good_once() {
    let stage = Stage::new().await;
    let first = stage.register("ada").await.tokens;
    let second = stage
        .auth
        .refresh(&first.refresh, &Origin::default())
        .await
        .unwrap();
    let bad = answer(Kind::Unauthorized, "Invalid or expired refresh token");
    stage.clock.advance(Duration::from_secs(10));
    assert_eq!(
        refused(stage.auth.refresh(&first.refresh, &Origin::default()).await),
        bad
    );
    assert!(stage.caller(&second).await.is_ok(), "a retry does no harm");
    stage.clock.advance(Duration::from_secs(1));
    assert_eq!(
        refused(stage.auth.refresh(&first.refresh, &Origin::default()).await),
        bad
    );
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(
        refused(stage.caller(&second).await),
        ended,
        "a thief's use ends the session"
    );
    assert_eq!(
        refused(
            stage
                .auth
                .refresh(&second.refresh, &Origin::default())
                .await
        ),
        bad
    );
    assert_eq!(
        refused(
            stage
                .auth
                .refresh(&"unknown".into(), &Origin::default())
                .await
        ),
        bad
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_refreshes_at_once_one_wins_and_the_session_lives() {
    let stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    let origin = Origin::default();
    let (one, other) = tokio::join!(
        stage.auth.refresh(&tokens.refresh, &origin),
        stage.auth.refresh(&tokens.refresh, &origin)
    );
    let (winner, loser) = if one.is_ok() {
        (one, other)
    } else {
        (other, one)
    };
    assert_eq!(
        refused(loser),
        answer(Kind::Unauthorized, "Invalid or expired refresh token")
    );
    let winner = winner.unwrap();
    assert!(stage.caller(&winner).await.is_ok());
    assert!(
        stage
            .auth
            .refresh(&winner.refresh, &Origin::default())
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_session_lives_for_30_days_after_its_last_refresh() {
    let stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    stage.clock.advance(days(29));
    let tokens = stage
        .auth
        .refresh(&tokens.refresh, &Origin::default())
        .await
        .unwrap();
    stage.clock.advance(days(29));
    let tokens = stage
        .auth
        .refresh(&tokens.refresh, &Origin::default())
        .await
        .unwrap();
    stage.clock.advance(days(30));
    let bad = answer(Kind::Unauthorized, "Invalid or expired refresh token");
    assert_eq!(
        refused(
            stage
                .auth
                .refresh(&tokens.refresh, &Origin::default())
                .await
        ),
        bad
    );
}

#[tokio::test]
async fn signing_out_ends_every_web_session_of_the_account_and_no_other() {
    let stage = Stage::new().await;
    let ada = stage.register("ada").await.tokens;
    let elsewhere = stage
        .sign_in("ada@a.example", PASSWORD)
        .await
        .unwrap()
        .tokens;
    let eve = stage.register("eve").await.tokens;
    let account = stage.caller(&ada).await.unwrap().account;
    let bad = answer(Kind::Unauthorized, "Invalid or expired refresh token");
    for foreign in [&eve.refresh, &"unknown".into()] {
        assert_eq!(
            refused(
                stage
                    .auth
                    .sign_out(&account, foreign, Origin::default())
                    .await
            ),
            bad
        );
    }
    assert!(stage.caller(&ada).await.is_ok());
    stage
        .auth
        .sign_out(&account, &elsewhere.refresh, Origin::default())
        .await
        .unwrap();
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(refused(stage.caller(&ada).await), ended);
    assert_eq!(refused(stage.caller(&elsewhere).await), ended);
    assert_eq!(
        refused(stage.auth.refresh(&ada.refresh, &Origin::default()).await),
        bad
    );
    assert!(stage.caller(&eve).await.is_ok());
    assert_eq!(stage.texts("SELECT id FROM app_passwords").await.len(), 1);
}

#[tokio::test]
async fn a_sealed_password_moved_to_another_session_opens_nothing() {
    let stage = Stage::new().await;
    let (ada, eve) = (stage.register("ada").await, stage.register("eve").await);
    stage
        .execute(
            "UPDATE sessions SET sealed_password = (SELECT sealed_password FROM sessions s \
             JOIN accounts a ON a.id = s.account_id WHERE a.address = 'ada@a.example')",
        )
        .await;
    assert!(stage.caller(&ada.tokens).await.is_ok());
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(refused(stage.caller(&eve.tokens).await), ended);
}

#[tokio::test]
async fn a_new_key_on_top_keeps_sessions_and_a_lost_key_ends_them() {
    let mut stage = Stage::new().await;
    let tokens = stage.register("ada").await.tokens;
    let file = stage.folder.join("key");
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    stage.again("").await;
    let new = std::fs::read_to_string(&file).unwrap();
    let invalid = answer(Kind::Unauthorized, "Invalid or expired access token");
    assert_eq!(refused(stage.caller(&tokens).await), invalid);
    std::fs::write(&file, format!("{new}{old}")).unwrap();
    stage.again("").await;
    assert!(stage.caller(&tokens).await.is_ok());
    let refreshed = stage
        .auth
        .refresh(&tokens.refresh, &Origin::default())
        .await
        .unwrap();
    assert!(stage.caller(&refreshed).await.is_ok());
    std::fs::write(&file, new).unwrap();
    stage.again("").await;
    let ended = answer(
        Kind::Unauthorized,
        "Mail session expired, please log in again",
    );
    assert_eq!(
        refused(stage.caller(&refreshed).await),
        ended,
        "its password was sealed with the old key"
    );
}

#[tokio::test]
async fn a_credential_of_another_kind_gets_the_answer_of_its_kind() {
    let stage = Stage::new().await;
    for (header, text) in [
        ("Bearer lmk_abc", "Invalid API token"),
        ("Bearer opaque", "Invalid or expired access token"),
        (
            "Bearer eyJhbGciOiJub25lIn0.e30.",
            "Invalid or expired access token",
        ),
        ("Basic YTpi", "Missing or invalid Authorization header"),
    ] {
        assert_eq!(
            refused(stage.authenticate(header).await),
            answer(Kind::Unauthorized, text),
            "{header}"
        );
    }
}

#[tokio::test]
async fn the_operators_account_is_made_once_and_never_changed() {
    let stage = Stage::new().await;
    let create = async |address: &str, password: &str| {
        stage.auth.create_account(address, password.into()).await
    };
    assert_eq!(
        create("Postmaster@A.example", "demo").await.unwrap(),
        Provision::Created
    );
    assert_eq!(
        create("postmaster@a.example", "demo").await.unwrap(),
        Provision::Exists
    );
    assert_eq!(
        create("postmaster@a.example", "other").await.unwrap(),
        Provision::Differs
    );
    assert!(stage.sign_in("postmaster@a.example", "demo").await.is_ok());
    stage
        .execute("INSERT INTO addresses (address, kind) VALUES ('held@a.example', 'held')")
        .await;
    assert_eq!(
        create("held@a.example", "demo").await.unwrap(),
        Provision::AddressTaken
    );
    for (address, password) in [
        ("postmaster", "demo"),
        ("demo@other.example", "demo"),
        ("demo@a.example", ""),
    ] {
        let (kind, _) = refused(create(address, password).await);
        assert_eq!(kind, Kind::Invalid, "{address}");
    }
}
