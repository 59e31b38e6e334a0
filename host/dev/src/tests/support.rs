//! Helpers of the tests: a stack with a directory, and clients that speak IMAP and SMTP.

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

pub(super) const ANN: &str = "ann@latchmail.test";
pub(super) const PASSWORD: &str = "abcdefghijklmnopqrstuvwxyz234567";
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// A folder that is removed if the test succeeds.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lm-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder of a failed test is not removed, because it contains the logs.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A directory with Ann, her app password and her alias.
pub(super) async fn directory(database: &config::Database) -> Directory {
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
            policy: None,
        },
        sealed_password: Vec::new(),
        refresh_hash: "r1".into(),
        created_at: NOW,
        expires_at: NOW.plus(Duration::from_hours(24)),
        provider: None,
    };
    let created = directory
        .accounts
        .create(&ann, Some(&session), &Origin::default())
        .await;
    assert_eq!(created.unwrap(), Creation::Created);
    execute(
        &directory,
        "INSERT INTO addresses (address, kind, account_id) VALUES ('shop@latchmail.test', 'alias', 'm1')",
    )
    .await;
    directory
}

pub(super) async fn execute(directory: &Directory, query: &'static str) {
    testing::execute(directory.db(), query).await.unwrap();
}

/// Creates the same directory in SQLite files in `folder`.
pub(super) async fn sqlite(folder: &Path) -> (Lookup, Directory) {
    let file = folder.join("mailserver").join("mailserver.db");
    let database = config::Database {
        url: format!("sqlite:{}", folder.join("latchmail.db").display()),
        mailserver: file.clone(),
        ..config::Database::default()
    };
    (Lookup::Sqlite(file), directory(&database).await)
}

/// Creates the same directory in a new database of the PostgreSQL server.
pub(super) async fn postgres() -> (Lookup, Directory) {
    let url = PostgresDatabase::create().await.unwrap().url;
    let database = config::Database {
        url: url.clone(),
        ..config::Database::default()
    };
    (Lookup::Postgres(url), directory(&database).await)
}

pub(super) async fn stack(folder: &Folder) -> (LocalServers, Directory) {
    let (lookup, directory) = sqlite(&folder.0).await;
    (
        LocalServers::start(&folder.0, &lookup).await.unwrap(),
        directory,
    )
}

/// A connection to a mail server with a line-based protocol.
pub(super) struct Connection(pub(super) BufReader<TcpStream>);

impl Connection {
    pub(super) async fn open(address: std::net::SocketAddr) -> Self {
        let mut connection = Self(BufReader::new(TcpStream::connect(address).await.unwrap()));
        connection.line().await;
        connection
    }

    pub(super) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.0.read_line(&mut line)).await;
        read.expect("the server did not respond in time").unwrap();
        line
    }

    /// Sends a command and returns the last line of the SMTP reply.
    pub(super) async fn smtp(&mut self, command: &str) -> String {
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
    pub(super) async fn wait_until_closed(&mut self) {
        while !self.line().await.is_empty() {}
    }

    /// Sends a command and returns the complete IMAP response.
    pub(super) async fn imap(&mut self, command: &str) -> String {
        self.0
            .write_all(format!("t {command}\r\n").as_bytes())
            .await
            .unwrap();
        let mut reply = String::new();
        loop {
            let line = self.line().await;
            reply.push_str(&line);
            if line.starts_with("t ") {
                return reply;
            }
        }
    }
}

pub(super) async fn imap(stack: &LocalServers) -> Connection {
    log_in(stack, ANN, PASSWORD).await
}

pub(super) async fn log_in(stack: &LocalServers, address: &str, password: &str) -> Connection {
    let mut imap = Connection::open(stack.imap).await;
    let reply = imap.imap(&format!("LOGIN {address} {password}")).await;
    assert!(reply.starts_with("t OK"), "{reply}");
    imap
}

pub(super) async fn deliver(stack: &LocalServers, to: &str, subject: &str) -> String {
    let mut smtp = Connection::open(stack.smtp).await;
    smtp.smtp("EHLO there.example").await;
    smtp.smtp("MAIL FROM:<friend@there.example>").await;
    let reply = smtp.smtp(&format!("RCPT TO:<{to}>")).await;
    if !reply.starts_with("250") {
        return reply;
    }
    smtp.smtp("DATA").await;
    smtp.smtp(&format!("Subject: {subject}\r\n\r\nHello.\r\n."))
        .await
}

/// Waits until INBOX contains this number of messages.
pub(super) async fn wait_for_messages(imap: &mut Connection, messages: u32) {
    timeout(TIMEOUT, async {
        while !imap
            .imap("SELECT INBOX")
            .await
            .contains(&format!("* {messages} EXISTS"))
        {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the mail did not arrive");
}

/// Waits until the sink contains a message with `text`, and returns the message.
pub(super) async fn wait_for_sent(stack: &LocalServers, text: &str) -> String {
    timeout(TIMEOUT, async {
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
    .expect("the mail was not sent")
}

pub(super) async fn submission(stack: &LocalServers) -> Connection {
    submission_as(stack, ANN, PASSWORD).await
}

pub(super) async fn submission_as(
    stack: &LocalServers,
    address: &str,
    password: &str,
) -> Connection {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    let mut smtp = Connection::open(stack.submission).await;
    smtp.smtp("EHLO here.example").await;
    let plain = BASE64_STANDARD.encode(format!("\0{address}\0{password}"));
    let reply = smtp.smtp(&format!("AUTH PLAIN {plain}")).await;
    assert!(reply.starts_with("235"), "{reply}");
    smtp
}

pub(super) async fn assert_mail_is_delivered(stack: &LocalServers) {
    let mut imap = imap(stack).await;
    for (to, seen) in [(ANN, 1), ("Shop@Latchmail.test", 2)] {
        let reply = deliver(stack, to, "first").await;
        assert!(reply.starts_with("250"), "{reply}");
        wait_for_messages(&mut imap, seen).await;
    }
    let unknown = deliver(stack, "nobody@latchmail.test", "x").await;
    assert!(unknown.starts_with("550"), "{unknown}");
    let elsewhere = deliver(stack, "friend@there.example", "x").await;
    assert!(elsewhere.starts_with("554"), "{elsewhere}");
}

pub(super) async fn assert_only_the_app_password_logs_in(stack: &LocalServers) {
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
        let mut connection = Connection::open(stack.imap).await;
        let reply = connection
            .imap(&format!("LOGIN \"{user}\" \"{password}\""))
            .await;
        assert!(
            reply.starts_with("t NO [AUTHENTICATIONFAILED]"),
            "{user}, {password}: {reply}"
        );
    }))
    .await;
}
