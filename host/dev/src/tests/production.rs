//! Tests of `production.conf`, the settings of Dovecot for production, together with the settings
//! for development.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

use latchmail_mailserver::{DovecotVersion, free_port};
use tokio::process::Command;
use tokio::time::timeout;

use super::support::{ANN, Folder, PASSWORD, TIMEOUT, imap, stack};

const CERTIFICATE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../net/src/fetch/tests/certificate.pem"
);
const KEY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../net/src/fetch/tests/key.pem"
);

/// Logs in over TLS with openssl's client, and returns its output.
async fn log_in_over_tls(folder: &Folder, port: u16) -> String {
    let commands = folder.0.join("commands");
    let text = format!("a LOGIN {ANN} {PASSWORD}\nb SELECT INBOX\nc LOGOUT\n");
    std::fs::write(&commands, text).unwrap();
    let mut client = Command::new("openssl");
    client
        .args(["s_client", "-quiet", "-crlf", "-verify_return_error"])
        .args(["-CAfile", CERTIFICATE, "-verify_ip", "127.0.0.1"])
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .stdin(File::open(commands).unwrap())
        .kill_on_drop(true);
    let output = timeout(TIMEOUT, client.output())
        .await
        .expect("Dovecot did not close the connection after LOGOUT")
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn remote_clients_log_in_over_tls_and_local_ones_without_tls() {
    let folder = Folder::new("production");
    let (mut stack, _directory) = stack(&folder).await;
    stack.stop_imap().await.unwrap();
    let template = match DovecotVersion::installed().unwrap() {
        DovecotVersion::V2_3 => include_str!("../../../mailserver/dovecot/2.3/production.conf"),
        DovecotVersion::V2_4 => include_str!("../../../mailserver/dovecot/2.4/production.conf"),
    };
    let imaps = free_port().unwrap().local_addr().unwrap().port();
    let settings = template
        .replace("/etc/ssl/private/mail.example.org.pem", CERTIFICATE)
        .replace("/etc/ssl/private/mail.example.org.key", KEY)
        .replace("port = 143", &format!("port = {}", stack.imap.port()))
        .replace("port = 993", &format!("port = {imaps}"))
        .replace("*, ::", "127.0.0.1");
    let mut file = OpenOptions::new()
        .append(true)
        .open(folder.0.join("dovecot/local.conf"))
        .unwrap();
    file.write_all(settings.as_bytes()).unwrap();
    stack.start_imap().await.unwrap();

    let output = log_in_over_tls(&folder, imaps).await;
    assert!(output.contains("a OK"), "{output}");
    assert!(output.contains("b OK [READ-WRITE]"), "{output}");
    imap(&stack).await;
    stack.stop().await.unwrap();
}
