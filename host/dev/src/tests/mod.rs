//! Tests of the stack with real daemons and a real directory. They show how Dovecot and Postfix use the contract of `docs/mailserver.md`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use latchmail_core::caller::Origin;
use latchmail_core::config;
use latchmail_core::secrets::sha256_hex;
use latchmail_directory::Directory;
use latchmail_directory::accounts::{Creation, DEFAULT_PLAN, NewAccount};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::sessions::NewSession;
use latchmail_directory::testing::{self, NOW, PostgresDatabase};
use latchmail_mailserver::{LocalServers, Lookup};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

mod lifetime;
mod log_in;
mod production;
mod refusals;
mod sessions;
mod transport;

const ANN: &str = "ann@latchmail.test";
const PASSWORD: &str = "abcdefghijklmnopqrstuvwxyz234567";
const PATIENCE: Duration = Duration::from_secs(15);

/// A folder that is removed if the test succeeds.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lm-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The logs of a failed test are kept.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A directory with Ann, her app password and her alias.
async fn directory(database: &config::Database) -> Directory {
    let domains = ["latchmail.test".to_owned()];
    let directory = Directory::open(database, &domains).await.unwrap();
    let ann = NewAccount {
        id: "m1".into(),
        address: ANN.into(),
        password_hash: "none".into(),
        profile: None,
        plan: DEFAULT_PLAN.into(),
        admin: false,
        created_at: NOW,
    };
    let session = NewSession {
        sid: "s1".into(),
        account_id: ann.id.clone(),
        app_password: NewAppPassword {
            id: "p1".into(),
            kind: AppPasswordKind::WebSession,
            label: "a mail client".into(),
            selector: PASSWORD[..8].into(),
            secret_hash: sha256_hex(PASSWORD),
            expires_at: None,
        },
        sealed_password: Vec::new(),
        refresh_hash: "r1".into(),
        created_at: NOW,
        expires_at: NOW.plus(Duration::from_hours(24)),
    };
    let made = directory
        .create_account(&ann, Some(&session), &Origin::default())
        .await;
    assert_eq!(made.unwrap(), Creation::Created);
    execute(
        &directory,
        "INSERT INTO addresses (address, kind, account_id) VALUES ('shop@latchmail.test', 'alias', 'm1')",
    )
    .await;
    directory
}

async fn execute(directory: &Directory, query: &'static str) {
    testing::execute(directory.db(), query).await.unwrap();
}

/// Creates the same directory in SQLite files in `folder`.
async fn sqlite(folder: &Path) -> (Lookup, Directory) {
    let file = folder.join("mailserver").join("mailserver.db");
    let database = config::Database {
        url: format!("sqlite:{}", folder.join("latchmail.db").display()),
        mailserver: file.clone(),
        ..config::Database::default()
    };
    (Lookup::Sqlite(file), directory(&database).await)
}

/// Creates the same directory in a new database of the PostgreSQL server.
async fn postgres() -> (Lookup, Directory) {
    let url = PostgresDatabase::create().await.unwrap().url;
    let database = config::Database {
        url: url.clone(),
        ..config::Database::default()
    };
    (Lookup::Postgres(url), directory(&database).await)
}

async fn stack(folder: &Folder) -> (LocalServers, Directory) {
    let (lookup, directory) = sqlite(&folder.0).await;
    (
        LocalServers::start(&folder.0, &lookup).await.unwrap(),
        directory,
    )
}

/// A line-based connection to a server.
struct Talk(BufReader<TcpStream>);

impl Talk {
    async fn with(address: std::net::SocketAddr) -> Self {
        let mut talk = Self(BufReader::new(TcpStream::connect(address).await.unwrap()));
        talk.line().await;
        talk
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.0.read_line(&mut line)).await;
        read.expect("an answer in time").unwrap();
        line
    }

    /// Sends a command and returns the last line of the SMTP reply.
    async fn smtp(&mut self, command: &str) -> String {
        self.0
            .write_all(format!("{command}\r\n").as_bytes())
            .await
            .unwrap();
        loop {
            let line = self.line().await;
            if line.as_bytes().get(3) != Some(&b'-') {
                return line;
            }
        }
    }

    /// Waits until the server closes the connection.
    async fn ends(&mut self) {
        while !self.line().await.is_empty() {}
    }

    /// Sends a command and returns the complete IMAP response.
    async fn imap(&mut self, command: &str) -> String {
        self.0
            .write_all(format!("t {command}\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        loop {
            let line = self.line().await;
            answer.push_str(&line);
            if line.starts_with("t ") {
                return answer;
            }
        }
    }
}

async fn imap(stack: &LocalServers) -> Talk {
    logged_in(stack, ANN, PASSWORD).await
}

async fn logged_in(stack: &LocalServers, address: &str, password: &str) -> Talk {
    let mut imap = Talk::with(stack.imap).await;
    let answer = imap.imap(&format!("LOGIN {address} {password}")).await;
    assert!(answer.starts_with("t OK"), "{answer}");
    imap
}

async fn deliver(stack: &LocalServers, to: &str, subject: &str) -> String {
    let mut smtp = Talk::with(stack.smtp).await;
    smtp.smtp("EHLO there.example").await;
    smtp.smtp("MAIL FROM:<friend@there.example>").await;
    let answer = smtp.smtp(&format!("RCPT TO:<{to}>")).await;
    if !answer.starts_with("250") {
        return answer;
    }
    smtp.smtp("DATA").await;
    smtp.smtp(&format!("Subject: {subject}\r\n\r\nHello.\r\n."))
        .await
}

/// Waits until INBOX contains this number of messages.
async fn arrived(imap: &mut Talk, messages: u32) {
    timeout(PATIENCE, async {
        while !imap
            .imap("SELECT INBOX")
            .await
            .contains(&format!("* {messages} EXISTS"))
        {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the mail to arrive");
}

/// Waits until the sink contains a message with `text`, and returns the message.
async fn sent(stack: &LocalServers, text: &str) -> String {
    timeout(PATIENCE, async {
        loop {
            let files = std::fs::read_dir(&stack.sink).unwrap();
            let mut mails =
                files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
            if let Some(mail) = mails.find(|mail| mail.contains(text)) {
                return mail;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the mail to leave")
}

async fn submission(stack: &LocalServers) -> Talk {
    submission_of(stack, ANN, PASSWORD).await
}

async fn submission_of(stack: &LocalServers, address: &str, password: &str) -> Talk {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    let mut smtp = Talk::with(stack.submission).await;
    smtp.smtp("EHLO here.example").await;
    let plain = BASE64_STANDARD.encode(format!("\0{address}\0{password}"));
    let answer = smtp.smtp(&format!("AUTH PLAIN {plain}")).await;
    assert!(answer.starts_with("235"), "{answer}");
    smtp
}

async fn a_mail_goes_all_the_way(stack: &LocalServers) {
    let mut imap = imap(stack).await;
    for (to, seen) in [(ANN, 1), ("Shop@Latchmail.test", 2)] {
        let answer = deliver(stack, to, "first").await;
        assert!(answer.starts_with("250"), "{answer}");
        arrived(&mut imap, seen).await;
    }
    let unknown = deliver(stack, "nobody@latchmail.test", "x").await;
    assert!(unknown.starts_with("550"), "{unknown}");
    let elsewhere = deliver(stack, "friend@there.example", "x").await;
    assert!(elsewhere.starts_with("554"), "{elsewhere}");
}

async fn an_app_password_opens_and_nothing_else_does(stack: &LocalServers) {
    imap(stack).await;
    let wrong = format!("abcdefgh{}", "x".repeat(24));
    let hostile = [
        wrong.as_str(),
        "",
        "1234567'",
        "'",
        "' OR 1=1 --",
        "1234567' OR '1'='1",
        "12345678' UNION SELECT 'x",
        "%w%u",
        "1234567\\\\",
    ];
    let users = [
        "nobody@latchmail.test",
        "ann@latchmail.test' --",
        "' OR 1=1 --",
    ];
    let attempts = hostile
        .map(|password| (ANN, password))
        .into_iter()
        .chain(users.map(|user| (user, PASSWORD)));
    // Dovecot delays a rejection by half a second.
    join_all(attempts.map(|(user, password)| async move {
        let mut talk = Talk::with(stack.imap).await;
        let answer = talk.imap(&format!("LOGIN \"{user}\" \"{password}\"")).await;
        assert!(
            answer.starts_with("t NO [AUTHENTICATIONFAILED]"),
            "{user}, {password}: {answer}"
        );
    }))
    .await;
}

#[tokio::test]
async fn postgresql_is_read_as_a_role_that_sees_nothing_else() {
    let (lookup, directory) = postgres().await;
    let folder = Folder::new("pg");
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    an_app_password_opens_and_nothing_else_does(&stack).await;
    a_mail_goes_all_the_way(&stack).await;
    submission(&stack).await;
    execute(
        &directory,
        "REVOKE SELECT ON mailserver_passwords FROM latchmail_mailserver",
    )
    .await;
    let answer = Talk::with(stack.imap)
        .await
        .imap(&format!("LOGIN {ANN} {PASSWORD}"))
        .await;
    assert!(
        answer.starts_with("t NO [UNAVAILABLE]"),
        "the role alone reads: {answer}"
    );
    stack.stop().await.unwrap();
}
