//! Tests of the sessions of mail clients: a session ends when its app password is revoked, and
//! logins are recorded.

use std::collections::HashMap;
use std::time::Duration;

use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::config::{self, Config};
use latchmail_core::logging::testing::logged;
use latchmail_core::secrets::sha256_hex;
use latchmail_directory::Directory;
use latchmail_directory::accounts::{Creation, DEFAULT_PLAN, NewAccount};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::testing::NOW;
use latchmail_mailbox::{Access, Mail, MailSettings, SessionSelector, end_server_sessions};
use latchmail_mailserver::{LocalServers, write_private};
use secrecy::SecretString;
use tokio::time::{Instant, sleep, timeout};

use super::support::{
    ANN, Connection, Folder, PASSWORD, TIMEOUT, deliver, execute, log_in, postgres, sqlite,
    submission, submission_as, wait_for_messages,
};

const BOB: &str = "bob@latchmail.test";
const PHONE: &str = "phonephonephonephonephonephoneph";
const DESK: &str = "deskdeskdeskdeskdeskdeskdeskdesk";
const BOBS: &str = "bobsbobsbobsbobsbobsbobsbobsbobs";

/// Mail servers with two accounts: Ann has two mail clients and a web session, Bob has a mail
/// client.
struct Servers {
    stack: LocalServers,
    directory: Directory,
    _folder: Folder,
}

impl Servers {
    async fn on_sqlite() -> Self {
        let folder = Folder::new("sessions");
        let (lookup, directory) = sqlite(&folder.0).await;
        let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
        Self::of(stack, directory, folder).await
    }

    async fn on_postgres() -> Self {
        let folder = Folder::new("sessions-pg");
        let (lookup, directory) = postgres().await;
        let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
        Self::of(stack, directory, folder).await
    }

    async fn of(stack: LocalServers, directory: Directory, folder: Folder) -> Self {
        let bob = NewAccount {
            id: "m2".into(),
            address: BOB.into(),
            password_hash: "none".into(),
            profile: None,
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: NOW,
        };
        let made = directory
            .accounts
            .create(&bob, None, &Origin::default())
            .await;
        assert_eq!(made.unwrap(), Creation::Created);
        for (account, id, secret) in [
            ("m1", "phone", PHONE),
            ("m1", "desk", DESK),
            ("m2", "bobs", BOBS),
        ] {
            let password = NewAppPassword {
                id: id.into(),
                kind: AppPasswordKind::AppPassword,
                label: id.into(),
                selector: secret[..8].into(),
                secret_hash: sha256_hex(secret),
                expires_at: None,
                policy: None,
            };
            directory.hold(account, &password, NOW).await;
        }
        Self {
            stack,
            directory,
            _folder: folder,
        }
    }

    fn config(&self) -> config::Imap {
        config::Imap {
            address: self.stack.imap.to_string(),
            doveadm: self.stack.doveadm.to_string(),
            doveadm_key_file: self.stack.doveadm_key.clone(),
            ..config::Imap::default()
        }
    }

    fn mail(&self, config: &config::Imap) -> Mail {
        Mail::new(config, self.directory.clone(), MailSettings::default()).unwrap()
    }

    async fn client(&self, address: &str, password: &str) -> Connection {
        log_in(&self.stack, address, password).await
    }

    /// Returns the number of logins with the service's login name, by any client.
    fn service_logins(&self) -> usize {
        let log = std::fs::read_to_string(self.stack.log.join("dovecot.log")).unwrap();
        // "Login:" in Dovecot 2.3, "Logged in:" in 2.4.
        let user = format!(": user=<{ANN}/p1>");
        log.lines()
            .filter(|line| line.contains("imap-login: Info: Log") && line.contains(&user))
            .count()
    }
}

/// The credential that the service uses for Ann: the app password of her web session.
fn service() -> Access {
    Access {
        account: "m1".into(),
        credential: MailCredential::app_password(
            "p1".into(),
            ANN.into(),
            SecretString::from(PASSWORD),
        ),
        member: None,
        grant: None,
        is_person: true,
    }
}

async fn assert_responds(client: &mut Connection) {
    let reply = client.imap("NOOP").await;
    assert!(reply.contains("t OK"), "{reply}");
}

async fn sessions_end_with_their_app_password(servers: Servers) {
    let mail = servers.mail(&servers.config());
    let mut phone = servers.client(ANN, PHONE).await;
    let mut phone_again = servers.client(ANN, PHONE).await;
    phone_again.imap("SELECT INBOX").await;
    let mut desk = servers.client(ANN, DESK).await;
    let mut bobs = servers.client(BOB, BOBS).await;
    mail.listing.folders(&service()).await.unwrap();

    mail.connections.end_sessions(&["phone".into()]).await;
    phone.wait_until_closed().await;
    phone_again.wait_until_closed().await;
    assert_responds(&mut desk).await;
    assert_responds(&mut bobs).await;
    mail.listing.folders(&service()).await.unwrap();
    assert_eq!(
        servers.service_logins(),
        1,
        "the service still uses its first connection"
    );

    // The service's pool has one connection. An attacker who stole the credential has the other.
    let mut attacker = servers.client(ANN, PASSWORD).await;
    mail.connections
        .end_sessions(&["p1".into(), "unknown".into()])
        .await;
    attacker.wait_until_closed().await;
    assert_eq!(mail.connections.count_of("m1"), 0);
    assert_responds(&mut desk).await;

    servers.stack.stop().await.unwrap();
}

#[tokio::test]
async fn sessions_end_with_their_app_password_and_no_other_on_sqlite() {
    sessions_end_with_their_app_password(Servers::on_sqlite().await).await;
}

#[tokio::test]
async fn sessions_end_with_their_app_password_and_no_other_on_postgresql() {
    sessions_end_with_their_app_password(Servers::on_postgres().await).await;
}

/// The mail server accepted the login just before and does not list its session yet.
#[tokio::test]
async fn a_session_that_starts_during_the_revocation_also_ends() {
    let servers = Servers::on_sqlite().await;
    let mail = servers.mail(&servers.config());
    mail.connections.end_sessions(&["phone".into()]).await;
    let mut phone = servers.client(ANN, PHONE).await;
    let mut desk = servers.client(ANN, DESK).await;
    phone.wait_until_closed().await;
    assert_responds(&mut desk).await;
    servers.stack.stop().await.unwrap();
}

/// Postfix requires the password only at the start of a session, but checks the sender before every
/// message.
async fn a_submission_session_cannot_send_after_its_app_password_is_revoked(servers: Servers) {
    let mut phone = submission_as(&servers.stack, ANN, PHONE).await;
    let mut desk = submission_as(&servers.stack, ANN, DESK).await;
    let mut service = submission(&servers.stack).await;
    let mut bobs = submission_as(&servers.stack, BOB, BOBS).await;
    let can_send = async |client: &mut Connection, address: &str| {
        let mail = client.smtp(&format!("MAIL FROM:<{address}>")).await;
        let recipient = client.smtp("RCPT TO:<friend@there.example>").await;
        client.smtp("RSET").await;
        mail.starts_with("250") && recipient.starts_with("250")
    };
    for own in [ANN, "shop@latchmail.test"] {
        for client in [&mut phone, &mut desk, &mut service] {
            assert!(can_send(client, own).await, "{own}");
        }
        assert!(!can_send(&mut bobs, own).await, "{own} is not Bob's");
    }
    assert!(can_send(&mut bobs, BOB).await);
    assert!(!can_send(&mut phone, BOB).await);
    execute(
        &servers.directory,
        "DELETE FROM app_passwords WHERE id = 'phone'",
    )
    .await;
    for own in [ANN, "shop@latchmail.test"] {
        assert!(!can_send(&mut phone, own).await, "{own}");
        assert!(can_send(&mut desk, own).await, "{own}");
        assert!(can_send(&mut service, own).await, "{own}");
    }
    servers.stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_submission_session_cannot_send_after_the_revocation_on_sqlite() {
    let servers = Servers::on_sqlite().await;
    a_submission_session_cannot_send_after_its_app_password_is_revoked(servers).await;
}

#[tokio::test]
async fn a_submission_session_cannot_send_after_the_revocation_on_postgresql() {
    let servers = Servers::on_postgres().await;
    a_submission_session_cannot_send_after_its_app_password_is_revoked(servers).await;
}

#[tokio::test]
async fn all_app_passwords_of_an_account_open_the_same_mailbox() {
    let servers = Servers::on_sqlite().await;
    let mut phone = servers.client(ANN, PHONE).await;
    phone.imap("CREATE Plans").await;
    let reply = deliver(&servers.stack, ANN, "shared").await;
    assert!(reply.starts_with("250"), "{reply}");
    wait_for_messages(&mut phone, 1).await;
    for password in [DESK, PASSWORD] {
        let mut other = servers.client(ANN, password).await;
        wait_for_messages(&mut other, 1).await;
        let folders = other.imap("LIST \"\" *").await;
        assert!(folders.contains("Plans"), "{folders}");
    }
    servers.stack.stop().await.unwrap();
}

/// The state after a crash, while doveadm does not respond.
async fn sessions_that_could_not_be_ended_are_ended_later(servers: Servers) {
    let mut phone = servers.client(ANN, PHONE).await;
    let mut desk = servers.client(ANN, DESK).await;
    let revoke = "DELETE FROM app_passwords WHERE id = 'phone'";
    execute(&servers.directory, revoke).await;
    let mail = servers.mail(&servers.config());
    mail.connections.retry_end_sessions().await.unwrap();
    // An app password that was revoked a moment ago is skipped, because another task may be ending
    // its sessions.
    assert_responds(&mut phone).await;
    let some_seconds_later = "UPDATE ended_app_passwords SET ended_at = ended_at - 10000";
    execute(&servers.directory, some_seconds_later).await;

    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = unused.local_addr().unwrap().to_string();
    drop(unused);
    let unreachable = servers.mail(&config::Imap {
        doveadm: closed,
        ..servers.config()
    });
    unreachable
        .connections
        .retry_end_sessions()
        .await
        .unwrap_err();
    assert_responds(&mut phone).await;
    mail.connections.retry_end_sessions().await.unwrap();
    phone.wait_until_closed().await;
    assert_responds(&mut desk).await;
    assert_eq!(pending_app_passwords(&servers.directory).await, 0);

    // If the sessions end immediately, the app password is no longer pending.
    let revoke = "DELETE FROM app_passwords WHERE id = 'desk'";
    execute(&servers.directory, revoke).await;
    assert_eq!(pending_app_passwords(&servers.directory).await, 1);
    mail.connections.end_sessions(&["desk".into()]).await;
    desk.wait_until_closed().await;
    timeout(TIMEOUT, async {
        while pending_app_passwords(&servers.directory).await > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the app password is still pending");

    // Without a configured doveadm, revoked app passwords are pending for one day.
    let revoke = "DELETE FROM app_passwords WHERE id = 'bobs'";
    execute(&servers.directory, revoke).await;
    let without_doveadm = servers.mail(&config::Imap {
        doveadm: String::new(),
        ..servers.config()
    });
    for (age, left) in [(10_000, 1), (90_000_000, 0)] {
        let aged = format!("UPDATE ended_app_passwords SET ended_at = ended_at - {age}");
        execute(&servers.directory, aged.leak()).await;
        without_doveadm
            .connections
            .retry_end_sessions()
            .await
            .unwrap();
        assert_eq!(pending_app_passwords(&servers.directory).await, left);
    }
    servers.stack.stop().await.unwrap();
}

async fn pending_app_passwords(directory: &Directory) -> i64 {
    const ALL: &str = "SELECT COUNT(*) FROM ended_app_passwords";
    latchmail_directory::testing::number(directory.db(), ALL)
        .await
        .unwrap()
}

#[tokio::test]
async fn sessions_that_could_not_be_ended_are_ended_later_on_sqlite() {
    sessions_that_could_not_be_ended_are_ended_later(Servers::on_sqlite().await).await;
}

#[tokio::test]
async fn sessions_that_could_not_be_ended_are_ended_later_on_postgresql() {
    sessions_that_could_not_be_ended_are_ended_later(Servers::on_postgres().await).await;
}

/// A command exits after its change, so it must make the retries itself.
#[tokio::test]
async fn a_command_ends_a_session_that_starts_during_the_revocation() {
    let servers = Servers::on_sqlite().await;
    let mut config = Config::parse("", "test", HashMap::new()).unwrap();
    config.imap = servers.config();
    let phone = ["phone".to_owned()];
    let command = end_server_sessions(&config, SessionSelector::AppPasswords(&phone));
    let (result, ()) = tokio::join!(command, async {
        sleep(Duration::from_secs(1)).await; // the first attempt has ended
        let mut late = servers.client(ANN, PHONE).await;
        late.wait_until_closed().await;
    });
    assert!(result.unwrap());
    servers.stack.stop().await.unwrap();
}

#[tokio::test]
async fn with_a_wrong_key_no_session_ends_and_a_warning_is_logged() {
    let servers = Servers::on_sqlite().await;
    let key = servers.stack.doveadm_key.with_file_name("other.key");
    write_private(&key, "Another-Key").unwrap();
    let mail = servers.mail(&config::Imap {
        doveadm_key_file: key,
        ..servers.config()
    });
    let mut phone = servers.client(ANN, PHONE).await;
    let log = log_of_ending(&mail, Duration::from_secs(1)).await;
    assert!(
        log.contains("WARN") && log.contains("rejected the key"),
        "{log}"
    );
    for key in ["Another-Key", "QW5vdGhlci1LZXk"] {
        assert!(!log.contains(key), "{log}");
    }
    assert_responds(&mut phone).await;
    servers.stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_doveadm_that_does_not_respond_causes_a_short_delay_and_a_warning() {
    let servers = Servers::on_sqlite().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mail = servers.mail(&config::Imap {
        doveadm: silent.local_addr().unwrap().to_string(),
        ..servers.config()
    });
    let mut phone = servers.client(ANN, PHONE).await;
    let log = log_of_ending(&mail, Duration::from_secs(3)).await;
    assert!(
        log.contains("WARN") && log.contains("did not respond"),
        "{log}"
    );
    assert_responds(&mut phone).await;
    servers.stack.stop().await.unwrap();
}

/// Ends the sessions of a mail client and returns the log output. Fails if this takes longer than
/// `limit`.
async fn log_of_ending(mail: &Mail, limit: Duration) -> String {
    logged(async {
        let started = Instant::now();
        mail.connections.end_sessions(&["phone".into()]).await;
        assert!(started.elapsed() < limit, "{:?}", started.elapsed());
        // The report may be logged shortly after the time limit.
        sleep(Duration::from_millis(200)).await;
    })
    .await
}

/// The key can only end sessions. It does not give access to mail.
#[tokio::test]
async fn the_key_allows_no_other_command() {
    use tokio::io::AsyncReadExt as _;
    use tokio::io::AsyncWriteExt as _;

    use base64::prelude::{BASE64_STANDARD, Engine as _};

    let servers = Servers::on_sqlite().await;
    let key = BASE64_STANDARD.encode(std::fs::read(&servers.stack.doveadm_key).unwrap());
    for command in [
        r#"["who",{},"t"]"#,
        r#"["stop",{},"t"]"#,
        r#"["fetch",{"user":"ann@latchmail.test","field":["text"],"query":["ALL"]},"t"]"#,
    ] {
        let body = format!("[{command}]");
        let request = format!(
            "POST /doveadm/v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: X-Dovecot-API {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(servers.stack.doveadm)
            .await
            .unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        let read = timeout(TIMEOUT, stream.read_to_string(&mut reply));
        read.await.unwrap().unwrap();
        assert!(reply.contains("unAuthorized"), "{command}: {reply}");
    }
    servers.stack.stop().await.unwrap();
}

async fn the_last_login_of_a_mail_client_is_recorded(servers: Servers) {
    let before = latchmail_core::clock::Clock::system().now();
    let directory = &servers.directory;
    assert!(
        directory
            .credentials
            .last_logins("m1")
            .await
            .unwrap()
            .is_empty()
    );
    let mut web = servers.client(ANN, PASSWORD).await;
    web.imap("LOGOUT").await;
    let recorded = |expected| wait_for_logins(directory, expected);
    let mut phone = servers.client(ANN, PHONE).await;
    let logins = recorded(&["phone"]).await;
    assert!(logins["phone"].seconds() >= before.seconds());
    phone.imap("LOGOUT").await;
    let _desk = servers.client(ANN, DESK).await;
    let _bobs = servers.client(BOB, BOBS).await;
    recorded(&["desk", "phone"]).await;
    // The recorded time has a resolution of one second.
    while latchmail_core::clock::Clock::system().now().seconds() <= logins["phone"].seconds() {
        sleep(Duration::from_millis(20)).await;
    }
    let _phone = servers.client(ANN, PHONE).await;
    timeout(TIMEOUT, async {
        while directory.credentials.last_logins("m1").await.unwrap()["phone"] <= logins["phone"] {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the later login was not recorded");
    // All logins are recorded now. Those of the web session are not recorded.
    let log = std::fs::read_to_string(servers.stack.log.join("dovecot.log")).unwrap();
    assert!(!log.contains("Error:"), "{log}");
    servers.stack.stop().await.unwrap();
}

/// Waits until exactly these app passwords of Ann are recorded as used.
async fn wait_for_logins(
    directory: &Directory,
    expected: &[&str],
) -> std::collections::HashMap<String, latchmail_core::clock::Timestamp> {
    timeout(TIMEOUT, async {
        loop {
            let logins = directory.credentials.last_logins("m1").await.unwrap();
            let mut ids: Vec<&str> = logins.keys().map(String::as_str).collect();
            ids.sort_unstable();
            if ids == expected {
                return logins;
            }
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the logins were not recorded")
}

#[tokio::test]
async fn the_last_login_of_a_mail_client_is_recorded_on_sqlite() {
    the_last_login_of_a_mail_client_is_recorded(Servers::on_sqlite().await).await;
}

#[tokio::test]
async fn the_last_login_of_a_mail_client_is_recorded_on_postgresql() {
    the_last_login_of_a_mail_client_is_recorded(Servers::on_postgres().await).await;
}
