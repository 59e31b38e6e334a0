//! Tests with a doveadm that is silent, fails or does not exist. Tests with a real doveadm are in the tests of the mail servers' stack.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;

const DONE: &str = r#"[["doveadmResponse",[{"result":"a@b/phone"}],"kick"]]"#;
const NOBODY_THERE: &str = r#"[["error",{"type":"exitCode", "exitCode":68},"kick"]]"#;

/// A key file that is deleted when the value is dropped.
struct Key(PathBuf);

impl Key {
    fn of(content: &str, mode: u32) -> Self {
        let name = format!("lm-key-{:016x}", getrandom::u64().unwrap());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        Self(file)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn configured(address: SocketAddr, key: &Key) -> config::Imap {
    config::Imap {
        doveadm: address.to_string(),
        doveadm_key_file: key.0.clone(),
        ..config::Imap::default()
    }
}

fn client(address: SocketAddr) -> Doveadm {
    let key = Key::of("key", 0o600);
    Doveadm::new(&configured(address, &key)).unwrap().unwrap()
}

/// Starts a server that sends `answer` to every request and keeps its connections open. Returns its address.
async fn server(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            held.push(stream);
        }
    });
    address
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn kicked(answer: &str) -> Result<(), Error> {
    let sessions = [Sessions::of_app_password("phone").unwrap()];
    client(server(answer.to_owned()).await)
        .kick(&sessions)
        .await
}

#[tokio::test]
async fn sessions_that_nobody_has_are_ended() {
    kicked(&ok(DONE)).await.unwrap();
    kicked(&ok(NOBODY_THERE)).await.unwrap();
}

#[tokio::test]
async fn what_is_not_said_to_be_done_is_not_done() {
    let refused = kicked("HTTP/1.1 401 Authentication required\r\nContent-Length: 0\r\n\r\n").await;
    assert!(matches!(refused, Err(Error::Refused)), "{refused:?}");
    for answer in [
        ok(""),
        ok("[]"),
        ok("{}"),
        ok(r#"[["error",{"type":"exitCode", "exitCode":75},"kick"]]"#),
        ok(r#"[["error",{"type":"unAuthorized", "exitCode":0},"kick"]]"#),
        "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".into(),
        ok("[").replace("h: 1", "h: 100000000") + &"x".repeat(LARGEST_ANSWER * 2),
    ] {
        let failed = kicked(&answer).await;
        assert!(
            matches!(failed, Err(Error::Failed(_) | Error::Unreachable(_))),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn one_that_is_not_there_is_told_at_once_and_one_that_is_silent_in_time() {
    let sessions = [Sessions::of_app_password("phone").unwrap()];
    let nobody = client(SocketAddr::from(([127, 0, 0, 1], 1)));
    let gone = nobody.kick(&sessions).await;
    assert!(matches!(gone, Err(Error::Unreachable(_))), "{gone:?}");
    for beginning in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[["] {
        let begun = Instant::now();
        let late = kicked(beginning).await;
        assert!(matches!(late, Err(Error::Late)), "{late:?}");
        assert!(begun.elapsed() < PATIENCE * 2);
    }
}

#[test]
fn a_name_with_a_wildcard_ends_nobody() {
    for name in ["*", "a*", "?", "a\\", ""] {
        assert!(Sessions::of_app_password(name).is_none(), "{name}");
        assert!(Sessions::of_account(name).is_none(), "{name}");
    }
    let Sessions(mask) = Sessions::of_account("ann@latchmail.test").unwrap();
    assert_eq!(mask, "ann@latchmail.test/*");
}

#[test]
fn a_key_that_anybody_may_read_or_that_is_none_is_refused_and_never_shown() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    for (key, reason) in [
        (Key::of("k", 0o604), "accessible to other users"),
        (Key::of(" \n", 0o600), "is empty"),
        (Key("/nowhere/key".into()), "cannot be read"),
    ] {
        let refused = Doveadm::new(&configured(address, &key)).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let doveadm = Doveadm::new(&configured(address, &Key::of("c2VjcmV0", 0o640))).unwrap();
    let shown = format!("{doveadm:?}");
    assert!(
        !shown.contains("c2VjcmV0") && !shown.contains("YzJWamNtVjA"),
        "{shown}"
    );
}

#[test]
fn none_that_is_configured_is_none() {
    let none = config::Imap::default();
    assert!(Doveadm::new(&none).unwrap().is_none());
}

/// Another program may listen on that port.
#[test]
fn what_it_answers_instead_is_one_short_line_without_control_characters() {
    let answer = format!("[[\"x\u{1b}[2J\r\nWARN all is well{}", "y".repeat(1000));
    let error = check(answer.as_bytes(), 1).unwrap_err().to_string();
    assert!(!error.chars().any(char::is_control), "{error:?}");
    assert!(error.contains("all is well"), "{error}");
    assert!(error.len() < 300, "{error}");
}
