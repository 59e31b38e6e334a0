//! Tests of the sessions of mail clients: they end with their own app password only, and their log-ins are recorded.

use latchmail_core::caller::MailCredential;
use latchmail_core::caller::Origin;
use latchmail_core::config;
use latchmail_core::logging::testing::logged;
use latchmail_core::secrets::sha256_hex;
use latchmail_directory::Directory;
use latchmail_directory::accounts::{Creation, DEFAULT_PLAN, NewAccount};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_mailbox::{Access, Mail, SessionSelector, end_server_sessions};
use latchmail_mailserver::write_private;
use secrecy::SecretString;
use tokio::time::Instant;

use super::{
    ANN, Duration, Folder, NOW, PASSWORD, PATIENCE, Stack, Talk, execute, logged_in, postgres,
    sleep, sqlite, submission, submission_of, timeout,
};

const BOB: &str = "bob@latchmail.test";
const PHONE: &str = "phonephonephonephonephonephoneph";
const DESK: &str = "deskdeskdeskdeskdeskdeskdeskdesk";
const BOBS: &str = "bobsbobsbobsbobsbobsbobsbobsbobs";

/// Mail servers with Ann, who has mail clients and a web session, and Bob, who has a mail client.
struct World {
    stack: Stack,
    directory: Directory,
    _folder: Folder,
}

impl World {
    async fn on_sqlite() -> Self {
        let folder = Folder::new("sessions");
        let (lookup, directory) = sqlite(&folder.0).await;
        let stack = Stack::start(&folder.0, &lookup).await.unwrap();
        Self::of(stack, directory, folder).await
    }

    async fn on_postgres() -> Self {
        let folder = Folder::new("sessions-pg");
        let (lookup, directory) = postgres().await;
        let stack = Stack::start(&folder.0, &lookup).await.unwrap();
        Self::of(stack, directory, folder).await
    }

    async fn of(stack: Stack, directory: Directory, folder: Folder) -> Self {
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
            .create_account(&bob, None, &Origin::default())
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
        Mail::new(config, self.directory.db().clone()).unwrap()
    }

    async fn client(&self, address: &str, password: &str) -> Talk {
        logged_in(&self.stack, address, password).await
    }

    /// Returns the number of log-ins, by any client, with the service's log-in name.
    fn log_ins(&self) -> usize {
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
    }
}

async fn answers(client: &mut Talk) {
    let answer = client.imap("NOOP").await;
    assert!(answer.contains("t OK"), "{answer}");
}

async fn sessions_end_with_their_app_password(world: World) {
    let mail = world.mail(&world.config());
    let mut phone = world.client(ANN, PHONE).await;
    let mut phone_again = world.client(ANN, PHONE).await;
    phone_again.imap("SELECT INBOX").await;
    let mut desk = world.client(ANN, DESK).await;
    let mut bobs = world.client(BOB, BOBS).await;
    mail.folders(&service()).await.unwrap();

    mail.end_sessions(&["phone".into()]).await;
    phone.ends().await;
    phone_again.ends().await;
    answers(&mut desk).await;
    answers(&mut bobs).await;
    mail.folders(&service()).await.unwrap();
    assert_eq!(world.log_ins(), 1, "the service's own connection stands");

    // One connection is in the service's pool, and an attacker who stole the credential holds the other.
    let mut thief = world.client(ANN, PASSWORD).await;
    mail.end_sessions(&["p1".into(), "nobody".into()]).await;
    thief.ends().await;
    assert_eq!(mail.connections("m1"), 0);
    answers(&mut desk).await;

    world.stack.stop().await.unwrap();
}

#[tokio::test]
async fn sessions_end_with_their_app_password_and_no_other_on_sqlite() {
    sessions_end_with_their_app_password(World::on_sqlite().await).await;
}

#[tokio::test]
async fn sessions_end_with_their_app_password_and_no_other_on_postgresql() {
    sessions_end_with_their_app_password(World::on_postgres().await).await;
}

/// A log-in that the mail server accepted just before and does not list yet.
#[tokio::test]
async fn a_session_that_began_as_its_app_password_was_revoked_ends_a_little_later() {
    let world = World::on_sqlite().await;
    let mail = world.mail(&world.config());
    mail.end_sessions(&["phone".into()]).await;
    let mut phone = world.client(ANN, PHONE).await;
    let mut desk = world.client(ANN, DESK).await;
    phone.ends().await;
    answers(&mut desk).await;
    world.stack.stop().await.unwrap();
}

/// Postfix requires the password only at the start of a session, but checks the sender before every message.
async fn an_open_submission_session_sends_nothing_once_its_app_password_is_revoked(world: World) {
    let mut phone = submission_of(&world.stack, ANN, PHONE).await;
    let mut desk = submission_of(&world.stack, ANN, DESK).await;
    let mut service = submission(&world.stack).await;
    let mut bobs = submission_of(&world.stack, BOB, BOBS).await;
    let may = async |client: &mut Talk, address: &str| {
        let mail = client.smtp(&format!("MAIL FROM:<{address}>")).await;
        let recipient = client.smtp("RCPT TO:<friend@there.example>").await;
        client.smtp("RSET").await;
        mail.starts_with("250") && recipient.starts_with("250")
    };
    for own in [ANN, "shop@latchmail.test"] {
        for client in [&mut phone, &mut desk, &mut service] {
            assert!(may(client, own).await, "{own}");
        }
        assert!(!may(&mut bobs, own).await, "{own} is not Bob's");
    }
    assert!(may(&mut bobs, BOB).await);
    assert!(!may(&mut phone, BOB).await);
    execute(
        &world.directory,
        "DELETE FROM app_passwords WHERE id = 'phone'",
    )
    .await;
    for own in [ANN, "shop@latchmail.test"] {
        assert!(!may(&mut phone, own).await, "{own}");
        assert!(may(&mut desk, own).await, "{own}");
        assert!(may(&mut service, own).await, "{own}");
    }
    world.stack.stop().await.unwrap();
}

#[tokio::test]
async fn an_open_submission_session_sends_nothing_more_on_sqlite() {
    let world = World::on_sqlite().await;
    an_open_submission_session_sends_nothing_once_its_app_password_is_revoked(world).await;
}

#[tokio::test]
async fn an_open_submission_session_sends_nothing_more_on_postgresql() {
    let world = World::on_postgres().await;
    an_open_submission_session_sends_nothing_once_its_app_password_is_revoked(world).await;
}

#[tokio::test]
async fn the_mailbox_is_the_same_whatever_app_password_opens_it() {
    let world = World::on_sqlite().await;
    let mut phone = world.client(ANN, PHONE).await;
    phone.imap("CREATE Plans").await;
    let answer = super::deliver(&world.stack, ANN, "one for all").await;
    assert!(answer.starts_with("250"), "{answer}");
    super::arrived(&mut phone, 1).await;
    for password in [DESK, PASSWORD] {
        let mut other = world.client(ANN, password).await;
        super::arrived(&mut other, 1).await;
        let folders = other.imap("LIST \"\" *").await;
        assert!(folders.contains("Plans"), "{folders}");
    }
    world.stack.stop().await.unwrap();
}

/// The state after a crash, while doveadm does not respond.
async fn what_was_not_ended_is_ended_later(world: World) {
    let mut phone = world.client(ANN, PHONE).await;
    let mut desk = world.client(ANN, DESK).await;
    let gone = "DELETE FROM app_passwords WHERE id = 'phone'";
    execute(&world.directory, gone).await;
    let mail = world.mail(&world.config());
    mail.retry_end_sessions().await.unwrap();
    answers(&mut phone).await; // one that is ending it may be under way: it is given some seconds
    let some_seconds_later = "UPDATE ended_app_passwords SET ended_at = ended_at - 10000";
    execute(&world.directory, some_seconds_later).await;

    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let deaf = world.mail(&config::Imap {
        doveadm: closed,
        ..world.config()
    });
    deaf.retry_end_sessions().await.unwrap_err();
    answers(&mut phone).await;
    mail.retry_end_sessions().await.unwrap();
    phone.ends().await;
    answers(&mut desk).await;
    assert_eq!(remembered(&world.directory).await, 0);

    // Sessions that were ended immediately need not be ended later.
    let gone = "DELETE FROM app_passwords WHERE id = 'desk'";
    execute(&world.directory, gone).await;
    assert_eq!(remembered(&world.directory).await, 1);
    mail.end_sessions(&["desk".into()]).await;
    desk.ends().await;
    timeout(PATIENCE, async {
        while remembered(&world.directory).await > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("it to be forgotten");

    // Without a configured doveadm, ended app passwords are forgotten after a day.
    let gone = "DELETE FROM app_passwords WHERE id = 'bobs'";
    execute(&world.directory, gone).await;
    let alone = world.mail(&config::Imap {
        doveadm: String::new(),
        ..world.config()
    });
    for (age, left) in [(10_000, 1), (90_000_000, 0)] {
        let aged = format!("UPDATE ended_app_passwords SET ended_at = ended_at - {age}");
        execute(&world.directory, aged.leak()).await;
        alone.retry_end_sessions().await.unwrap();
        assert_eq!(remembered(&world.directory).await, left);
    }
    world.stack.stop().await.unwrap();
}

async fn remembered(directory: &Directory) -> i64 {
    const ALL: &str = "SELECT COUNT(*) FROM ended_app_passwords";
    latchmail_directory::testing::number(directory.db(), ALL)
        .await
        .unwrap()
}

#[tokio::test]
async fn what_was_not_ended_is_ended_later_on_sqlite() {
    what_was_not_ended_is_ended_later(World::on_sqlite().await).await;
}

#[tokio::test]
async fn what_was_not_ended_is_ended_later_on_postgresql() {
    what_was_not_ended_is_ended_later(World::on_postgres().await).await;
}

/// The process of a command exits, so it makes its retries before that.
#[tokio::test]
async fn a_verb_ends_a_session_that_began_as_its_app_password_was_revoked() {
    let world = World::on_sqlite().await;
    let config = world.config();
    let phone = ["phone".to_owned()];
    let verb = end_server_sessions(&config, SessionSelector::AppPasswords(&phone));
    let (told, ()) = tokio::join!(verb, async {
        sleep(Duration::from_secs(1)).await; // the first time is over
        let mut late = world.client(ANN, PHONE).await;
        late.ends().await;
    });
    assert!(told.unwrap());
    world.stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_wrong_key_ends_nothing_and_is_reported() {
    let world = World::on_sqlite().await;
    let key = world.stack.doveadm_key.with_file_name("other.key");
    write_private(&key, "Another-Key").unwrap();
    let mail = world.mail(&config::Imap {
        doveadm_key_file: key,
        ..world.config()
    });
    let mut phone = world.client(ANN, PHONE).await;
    let log = ended(&mail, Duration::from_secs(1)).await;
    assert!(
        log.contains("WARN") && log.contains("rejected the key"),
        "{log}"
    );
    for key in ["Another-Key", "QW5vdGhlci1LZXk"] {
        assert!(!log.contains(key), "{log}");
    }
    answers(&mut phone).await;
    world.stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_doveadm_that_is_silent_holds_nobody_up_for_long_and_is_reported() {
    let world = World::on_sqlite().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mail = world.mail(&config::Imap {
        doveadm: silent.local_addr().unwrap().to_string(),
        ..world.config()
    });
    let mut phone = world.client(ANN, PHONE).await;
    let log = ended(&mail, Duration::from_secs(3)).await;
    assert!(
        log.contains("WARN") && log.contains("did not respond"),
        "{log}"
    );
    answers(&mut phone).await;
    world.stack.stop().await.unwrap();
}

/// Returns the log output while sessions of a mail client are ended. Ending them takes no longer than the time limit.
async fn ended(mail: &Mail, most: Duration) -> String {
    logged(async {
        let asked = Instant::now();
        mail.end_sessions(&["phone".into()]).await;
        assert!(asked.elapsed() < most, "{:?}", asked.elapsed());
        // The report may be logged shortly after the time limit.
        sleep(Duration::from_millis(200)).await;
    })
    .await
}

/// The key can only end sessions. It does not give access to mail.
#[tokio::test]
async fn the_key_opens_nothing_else() {
    use tokio::io::AsyncReadExt as _;
    use tokio::io::AsyncWriteExt as _;

    use base64::prelude::{BASE64_STANDARD, Engine as _};

    let world = World::on_sqlite().await;
    let key = BASE64_STANDARD.encode(std::fs::read(&world.stack.doveadm_key).unwrap());
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
        let mut stream = tokio::net::TcpStream::connect(world.stack.doveadm)
            .await
            .unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut answer));
        read.await.unwrap().unwrap();
        assert!(answer.contains("unAuthorized"), "{command}: {answer}");
    }
    world.stack.stop().await.unwrap();
}

async fn a_mail_client_s_last_log_in_is_known(world: World) {
    let before = latchmail_core::clock::Clock::system().now();
    let directory = &world.directory;
    assert!(directory.last_logins("m1").await.unwrap().is_empty());
    let mut web = world.client(ANN, PASSWORD).await;
    web.imap("LOGOUT").await;
    let first = |seen| wait_for(directory, seen);
    let mut phone = world.client(ANN, PHONE).await;
    let told = first(&["phone"]).await;
    assert!(told["phone"].seconds() >= before.seconds());
    phone.imap("LOGOUT").await;
    let _desk = world.client(ANN, DESK).await;
    let _bobs = world.client(BOB, BOBS).await;
    first(&["desk", "phone"]).await;
    // Logs in again in a later second.
    while latchmail_core::clock::Clock::system().now().seconds() <= told["phone"].seconds() {
        sleep(Duration::from_millis(20)).await;
    }
    let _phone = world.client(ANN, PHONE).await;
    timeout(PATIENCE, async {
        while directory.last_logins("m1").await.unwrap()["phone"] <= told["phone"] {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the later log-in to be known");
    // All log-ins have been recorded by now, and none of the web session is among them.
    let log = std::fs::read_to_string(world.stack.log.join("dovecot.log")).unwrap();
    assert!(!log.contains("Error:"), "{log}");
    world.stack.stop().await.unwrap();
}

/// Waits until exactly these app passwords of Ann are recorded as used.
async fn wait_for(
    directory: &Directory,
    expected: &[&str],
) -> std::collections::HashMap<String, latchmail_core::clock::Timestamp> {
    timeout(PATIENCE, async {
        loop {
            let told = directory.last_logins("m1").await.unwrap();
            let mut ids: Vec<&str> = told.keys().map(String::as_str).collect();
            ids.sort_unstable();
            if ids == expected {
                return told;
            }
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the log-in to be known")
}

#[tokio::test]
async fn a_mail_client_s_last_log_in_is_known_on_sqlite() {
    a_mail_client_s_last_log_in_is_known(World::on_sqlite().await).await;
}

#[tokio::test]
async fn a_mail_client_s_last_log_in_is_known_on_postgresql() {
    a_mail_client_s_last_log_in_is_known(World::on_postgres().await).await;
}
