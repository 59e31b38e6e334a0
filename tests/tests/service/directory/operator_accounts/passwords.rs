//! Passwords that the operator types or generates, and the sessions that a new password ends.

use std::process::Stdio;

use latchmail_tests::{PASSWORD, Service, TEST_TIMEOUT, imap, program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::{FOLDERS, SESSION_ENDED, run_command, sign_in};

#[tokio::test]
async fn a_generated_password_is_shown_once_and_signs_in() {
    let service = Service::with_mail().await;
    let output = run_command(&service, "account create eve@first.test --generate").await;
    let first = output.lines().last().unwrap().to_owned();
    sign_in(&service, "eve@first.test", &first)
        .await
        .succeeds(200);
    let output = run_command(&service, "account password eve@first.test --generate").await;
    let second = output.lines().last().unwrap();
    assert_ne!(first, second);
    sign_in(&service, "eve@first.test", &first)
        .await
        .fails(401, "Invalid credentials");
    sign_in(&service, "eve@first.test", second)
        .await
        .succeeds(200);
}

#[tokio::test]
async fn a_password_in_the_arguments_is_refused_and_not_printed() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    for verb in [
        "account password ada@first.test Secret-Pass-1",
        "account password ada@first.test --password Secret-Pass-1",
        "account password ada@first.test --password=Secret-Pass-1",
        "account create eve@first.test Secret-Pass-1",
        "account create eve@first.test --password=Secret-Pass-1",
    ] {
        let output = service.operator(verb, "Other-Pass-1\n").await;
        assert_eq!(output.status, 2, "{output:?}");
        assert!(!output.stderr.contains("Secret-Pass-1"), "{output:?}");
        assert!(output.stderr.contains("standard input"), "{output:?}");
    }
    sign_in(&service, "ada@first.test", PASSWORD)
        .await
        .succeeds(200);
}

#[tokio::test]
async fn an_interrupted_password_prompt_restores_the_terminal() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    let verb = format!(
        "stty -g; '{}' account password ada@first.test --config '{}'; echo status $?; stty -g",
        program().display(),
        service.operator_config().display()
    );
    for key in ["\x03", "\x1c"] {
        // Runs the command in a terminal of its own.
        let mut terminal = Command::new("script")
            .args(["--quiet", "--command", &verb, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut keyboard = terminal.stdin.take().unwrap();
        let mut screen = terminal.stdout.take().unwrap();
        let mut shown = Vec::new();
        let typed = async {
            while !shown.ends_with(b"New password: ") {
                assert_ne!(screen.read_buf(&mut shown).await.unwrap(), 0);
            }
            let half = format!("Half-a-Pass{key}");
            keyboard.write_all(half.as_bytes()).await.unwrap();
            screen.read_to_end(&mut shown).await.unwrap();
        };
        timeout(TEST_TIMEOUT, typed).await.unwrap();
        let shown = String::from_utf8(shown).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        let [before, _, complaint, "status 1", after] = lines[..] else {
            panic!("{lines:?}");
        };
        assert!(complaint.contains("nothing was changed"), "{complaint}");
        assert_eq!(before, after);
        assert!(!shown.contains("Half-a-Pass"), "{shown}");
    }
    sign_in(&service, "ada@first.test", PASSWORD)
        .await
        .succeeds(200);
}

#[tokio::test]
async fn a_new_password_ends_every_session_and_signs_in() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let other_session = ada.sign_in_again().await;
    let mut client = imap(&ada).await;
    let token = ada.token(&["mail:read"]).await;
    let output = service
        .operator("account password ada@first.test", "Pass-Word-1\r\n")
        .await
        .succeeds();
    assert!(!output.contains("Pass-Word-1"), "{output}");
    for session in [&ada, &other_session] {
        session.send(FOLDERS).await.fails(401, SESSION_ENDED);
    }
    let token = token["token"].as_str().unwrap();
    let refused = service.with_bearer(FOLDERS, token).await;
    refused.fails(401, "This API token has been revoked");
    client.noop().await.unwrap();
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    sign_in(&service, &ada.address, "Pass-Word-1")
        .await
        .succeeds(200);
}
