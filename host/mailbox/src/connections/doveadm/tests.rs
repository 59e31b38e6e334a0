//! Tests with a doveadm that sends no response, fails or does not exist. Tests with a real doveadm
//! are in `host/dev/src/tests`.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;

const DONE: &str = r#"[["doveadmResponse",[{"result":"a@b/phone"}],"kick"]]"#;
const NO_SUCH_USER: &str = r#"[["error",{"type":"exitCode", "exitCode":68},"kick"]]"#;

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

/// Starts a server that sends `response` to every request and keeps its connections open. Returns
/// its address.
async fn server(response: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(response.as_bytes()).await;
            open.push(stream);
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

async fn kick(response: &str) -> Result<(), Error> {
    let masks = [SessionMask::app_password("phone").unwrap()];
    client(server(response.to_owned()).await).kick(&masks).await
}

#[tokio::test]
async fn ending_sessions_succeeds_if_none_are_open() {
    kick(&ok(DONE)).await.unwrap();
    kick(&ok(NO_SUCH_USER)).await.unwrap();
}

#[tokio::test]
async fn a_response_without_success_of_every_command_is_an_error() {
    let refused = kick("HTTP/1.1 401 Authentication required\r\nContent-Length: 0\r\n\r\n").await;
    assert!(matches!(refused, Err(Error::KeyRejected)), "{refused:?}");
    for response in [
        ok(""),
        ok("[]"),
        ok("{}"),
        ok(r#"[["error",{"type":"exitCode", "exitCode":75},"kick"]]"#),
        ok(r#"[["error",{"type":"unAuthorized", "exitCode":0},"kick"]]"#),
        "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".into(),
        ok("[").replace("h: 1", "h: 100000000") + &"x".repeat(MAX_RESPONSE * 2),
    ] {
        let failed = kick(&response).await;
        assert!(
            matches!(failed, Err(Error::Failed(_) | Error::Unreachable(_))),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_server_fails_at_once_and_a_silent_one_after_the_timeout() {
    let masks = [SessionMask::app_password("phone").unwrap()];
    let unreachable = client(SocketAddr::from(([127, 0, 0, 1], 1)));
    let result = unreachable.kick(&masks).await;
    assert!(matches!(result, Err(Error::Unreachable(_))), "{result:?}");
    for beginning in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[["] {
        let start = Instant::now();
        let timed_out = kick(beginning).await;
        assert!(matches!(timed_out, Err(Error::Timeout)), "{timed_out:?}");
        assert!(start.elapsed() < TIMEOUT * 2);
    }
}

#[test]
fn a_name_with_a_wildcard_selects_no_sessions() {
    for name in ["*", "a*", "?", "a\\", ""] {
        assert!(SessionMask::app_password(name).is_none(), "{name}");
        assert!(SessionMask::account(name).is_none(), "{name}");
    }
    let SessionMask(mask) = SessionMask::account("ann@latchmail.test").unwrap();
    assert_eq!(mask, "ann@latchmail.test/*");
}

#[test]
fn an_unprotected_or_empty_key_file_is_rejected_and_a_key_is_never_shown() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    for (key, reason) in [
        (Key::of("k", 0o604), "readable or writable by other users"),
        (Key::of("k", 0o660), "readable or writable by other users"),
        (Key::of(" \n", 0o600), "is empty"),
        (
            Key("/nowhere/key".into()),
            "cannot read `imap.doveadm_key_file`",
        ),
    ] {
        let refused = Doveadm::new(&configured(address, &key)).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let doveadm = Doveadm::new(&configured(address, &Key::of("c2VjcmV0", 0o600))).unwrap();
    let shown = format!("{doveadm:?}");
    assert!(
        !shown.contains("c2VjcmV0") && !shown.contains("YzJWamNtVjA"),
        "{shown}"
    );
}

#[test]
fn without_configuration_there_is_no_client() {
    let none = config::Imap::default();
    assert!(Doveadm::new(&none).unwrap().is_none());
}

/// Another program may listen on the configured port.
#[test]
fn an_unexpected_response_is_shown_on_one_short_line_without_control_characters() {
    let response = format!("[[\"x\u{1b}[2J\r\nWARN all is well{}", "y".repeat(1000));
    let error = check(response.as_bytes(), 1).unwrap_err().to_string();
    assert!(!error.chars().any(char::is_control), "{error:?}");
    assert!(error.contains("all is well"), "{error}");
    assert!(error.len() < 300, "{error}");
}
