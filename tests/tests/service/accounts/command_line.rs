//! `latchmail mail`: a user signs in with the device grant, and reads and sends mail.

use std::path::Path;
use std::process::Stdio;

use latchmail_accounts::auth::command_line::CLIENT;
use latchmail_tests::{Client, PASSWORD, Person, ProgramOutput, Service, Setup, program};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Returns a command with a home of its own. There is no keyring, unless the home contains the
/// program that uses it.
fn mail(service: &Service, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    let home = service.state.join("home");
    std::fs::create_dir_all(&home).unwrap();
    command
        .env_clear()
        .env("HOME", &home)
        .env("PATH", &home)
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
        .arg("mail")
        .args(arguments);
    command
}

async fn run(service: &Service, arguments: &[&str], input: &str) -> ProgramOutput {
    ProgramOutput::of(&mut mail(service, arguments), input).await
}

/// Signs in, and enters the code on the page of the service.
async fn log_in(service: &Service, person: &Person<'_>, more: &[&str]) {
    let arguments = [&["login", "--url", &*service.base][..], more].concat();
    let mut command = mail(service, &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let (_, code) = line.rsplit_once(' ').unwrap();
    let browser = Client::with_id(service, CLIENT);
    let page = browser.load_page("/device", &[]).await;
    let page = browser
        .submit("/device", &page, &[("user_code", code)])
        .await;
    assert!(
        page.text.contains("Latchmail command line"),
        "{}",
        page.text
    );
    let fields = [
        ("email", &*person.address),
        ("password", PASSWORD),
        ("answer", "yes"),
    ];
    let done = browser.submit("/device", &page, &fields).await;
    assert!(done.text.contains("Device connected"), "{}", done.text);
    assert!(child.wait().await.unwrap().success());
}

/// Returns the JSON objects of the lines of an output.
fn objects(output: &str) -> Vec<Value> {
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn start() -> Service {
    Setup::default()
        .with_mail()
        .with("base_url = ''")
        .start()
        .await
}

#[tokio::test]
async fn a_user_signs_in_and_reads_and_sends_mail_although_agents_cannot_send() {
    let service = start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let letter = "From: Grace <grace@outside.test>\nTo: ada@first.test\nSubject: Plan\n\nHello.\n";
    ada.receive(letter).await;
    let signed_out = run(&service, &["list", "--url", &service.base], "").await;
    assert_eq!(signed_out.status, 3, "{signed_out:?}");
    log_in(&service, &ada, &[]).await;

    // The tokens are in a file that only the user can read.
    let folder = service.state.join("home/.config/latchmail");
    let names = std::fs::read_dir(&folder).unwrap();
    let tokens = names.map(|entry| entry.unwrap().path());
    let tokens: Vec<_> = tokens.filter(|path| path.extension().is_some()).collect();
    assert_eq!(tokens.len(), 1);
    assert_eq!(mode(&tokens[0]), 0o600);

    // The URL of the sign-in is the default.
    let listed = run(&service, &["list", "--json"], "").await.succeeds();
    let messages = objects(&listed);
    let [message] = &messages[..] else {
        panic!("{listed}");
    };
    assert_eq!(message["subject"], "Plan");
    let uid = message["uid"].to_string();
    let text = run(&service, &["read", &uid], "").await.succeeds();
    assert!(
        text.contains("Subject: Plan\n") && text.ends_with("\nHello.\n"),
        "{text}"
    );
    let missing = run(&service, &["read", "999"], "").await;
    assert_eq!(missing.status, 5, "{missing:?}");

    // The client can send, the agent endpoint has no tool for it, and an alias is created there.
    let send = ["send", "--to", &bob.address, "--subject", "Hello"];
    run(&service, &send, "From the command line.\n")
        .await
        .succeeds();
    bob.wait_for_message("Hello").await;
    let reply = ["reply", &uid];
    run(&service, &reply, "Thanks.\n").await.succeeds();
    let alias = ["alias", "create", "first.test", "shop"];
    let alias = run(&service, &alias, "").await.succeeds();
    assert_eq!(alias, "shop@first.test\n");
    let stored: Value = serde_json::from_slice(&std::fs::read(&tokens[0]).unwrap()).unwrap();
    let access = stored["access_token"].as_str().unwrap();
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let request = service
        .request("POST /mcp")
        .bearer_auth(access)
        .json(&request);
    let tools = request.send().await.unwrap().text().await.unwrap();
    assert!(
        tools.contains("create_alias") && !tools.contains("send_message"),
        "{tools}"
    );

    let moved = ["move", &uid, "--to", "Archive"];
    ada.post("/api/v1/mail/folders", &json!({ "path": "Archive" }))
        .await;
    run(&service, &moved, "").await.succeeds();
    assert_eq!(ada.total("Archive").await, 1);
    let missing = run(&service, &["move", "999", "--to", "Archive"], "").await;
    assert_eq!(missing.status, 5, "{missing:?}");

    // The access token expires, and is refreshed.
    service.clock.advance(std::time::Duration::from_mins(61));
    run(&service, &["list"], "").await.succeeds();
    run(&service, &["logout"], "").await.succeeds();
    assert_eq!(run(&service, &["list"], "").await.status, 3);
}

#[tokio::test]
async fn a_user_who_may_only_read_cannot_send() {
    let service = start().await;
    let ada = service.person("ada").await;
    log_in(&service, &ada, &["--read-only"]).await;
    let send = ["send", "--to", "b@outside.test", "--from", &ada.address];
    let refused = run(&service, &send, "x").await;
    assert_eq!(refused.status, 4, "{refused:?}");
}

#[tokio::test]
async fn the_tokens_are_in_a_file_if_the_keyring_cannot_be_used() {
    let service = start().await;
    let ada = service.person("ada").await;
    // The file is no program that can be started.
    let home = service.state.join("home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("secret-tool"), "").unwrap();
    log_in(&service, &ada, &[]).await;
    run(&service, &["list"], "").await.succeeds();
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
