//! `latchmail backup` and `latchmail restore`: with clients that change data during the backup, and
//! with backups that must be refused.

use std::collections::HashSet;
use std::fs;
use std::mem::discriminant;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{
    DOMAIN, PASSWORD, Person, ProgramOutput, Response, Service, app_password, append_message, imap,
    program, wait_until,
};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, interval, sleep};

use crate::mail::send::mail;

const SEND: &str = "/api/v1/mail/send";
/// The time between two requests: 20 requests per second.
const PERIOD: Duration = Duration::from_millis(50);
/// The maximum number of API tokens of an account. The test reaches it if a backup takes five
/// seconds.
const MAX_TOKENS: usize = 20;

/// Counts objects that were restored without a part of them.
const PARTS: [&str; 5] = [
    "SELECT COUNT(*) FROM accounts a WHERE NOT EXISTS (SELECT 1 FROM addresses d WHERE d.address = a.address AND d.account_id = a.id) \
        OR NOT EXISTS (SELECT 1 FROM mailboxes m WHERE m.account_id = a.id)",
    "SELECT COUNT(*) FROM accounts a WHERE NOT EXISTS (SELECT 1 FROM profiles p WHERE p.account_id = a.id) \
        OR NOT EXISTS (SELECT 1 FROM security_events e WHERE e.account_id = a.id AND e.kind = 'account_created')",
    "SELECT COUNT(*) FROM addresses d WHERE d.kind = 'alias' AND NOT EXISTS \
        (SELECT 1 FROM security_events e WHERE e.kind = 'alias_created' AND e.subject = d.address)",
    "SELECT COUNT(*) FROM api_tokens t WHERE NOT EXISTS (SELECT 1 FROM app_passwords p WHERE p.id = t.app_password_id)",
    "SELECT COUNT(*) FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM refresh_tokens r WHERE r.sid = s.sid)",
];

/// A change that the service acknowledged.
#[derive(Clone, Debug)]
enum Change {
    Account(String),
    Alias(String),
    Token(String),
    Sent(Value, Value),
    Flag(u64, String),
}

/// The acknowledged changes, each with the time of the acknowledgement.
type Changes = Mutex<Vec<(Instant, Change)>>;

async fn send_with_key(person: &Person<'_>, key: &str, mail: &Value) -> Response {
    let request = person.service.request(&format!("POST {SEND}"));
    let request = request.bearer_auth(&person.access).json(mail);
    Response::of(request.header("idempotency-key", key)).await
}

async fn add_flag(person: &Person<'_>, uid: u64, flag: &str) -> Response {
    let body = json!({ "uids": [uid], "flags": [flag], "action": "add" });
    person.post("/api/v1/mail/messages/bulk/flag", &body).await
}

/// Makes one change of each kind in turn. After [`MAX_TOKENS`] tokens, sets a flag instead of
/// creating a token.
async fn change(ada: &Person<'_>, uid: u64, number: usize) -> Change {
    match number % 5 {
        0 => {
            let person = ada.service.person(&format!("person{number}")).await;
            Change::Account(person.address)
        }
        1 => {
            let body = json!({ "name": format!("alias{number}"), "domain": DOMAIN });
            ada.post("/api/v1/aliases", &body).await.succeeds(201);
            Change::Alias(format!("alias{number}@{DOMAIN}"))
        }
        2 if number / 5 < MAX_TOKENS => {
            let token = ada.token(&["mail:read"]).await;
            Change::Token(token["token"].as_str().unwrap().to_owned())
        }
        3 => {
            let key = format!("key-{number}");
            let sent = send_with_key(ada, &key, &mail(&key)).await;
            Change::Sent(json!(key), sent.succeeds(200))
        }
        _ => {
            let flag = format!("$flag{number}");
            add_flag(ada, uid, &flag).await.succeeds(200);
            Change::Flag(uid, flag)
        }
    }
}

/// Makes 20 changes per second while `body` runs.
async fn under_load<T>(
    ada: &Person<'_>,
    uid: u64,
    changes: &Changes,
    body: impl Future<Output = T>,
) -> T {
    let mut period = interval(PERIOD);
    let mut running = futures_util::stream::FuturesUnordered::new();
    let mut number = 0;
    let mut body = std::pin::pin!(body);
    let mut result = None;
    loop {
        use futures_util::StreamExt as _;
        tokio::select! {
            done = &mut body, if result.is_none() => result = Some(done),
            _ = period.tick(), if result.is_none() => {
                running.push(change(ada, uid, number));
                number += 1;
            }
            Some(made) = running.next() => changes.lock().unwrap().push((Instant::now(), made)),
            else => break,
        }
    }
    result.unwrap()
}

/// Returns whether a change is in the restored service. A change in part fails the test.
async fn is_restored(ada: &Person<'_>, change: &Change) -> bool {
    let service = ada.service;
    match change {
        Change::Account(address) => {
            let body = json!({ "email": address, "password": PASSWORD });
            let response = service.post("/api/v1/auth/login", &body).await;
            if response.status == 401 {
                return false;
            }
            let person = Person::from_token_pair(service, &response.succeeds(200));
            person.send("GET /api/v1/profile").await.succeeds(200);
            assert_eq!(person.total("INBOX").await, 0);
            true
        }
        Change::Alias(address) => {
            let listed = ada.send("GET /api/v1/aliases").await.succeeds(200);
            listed.to_string().contains(address.as_str())
        }
        Change::Token(token) => {
            let line = "GET /api/v1/mail/folders/INBOX/messages";
            let response = service.with_bearer(line, token).await;
            assert!([200, 401].contains(&response.status), "{}", response.json);
            response.status == 200
        }
        Change::Sent(key, first) => {
            let key = key.as_str().unwrap();
            let response = send_with_key(ada, key, &mail(key)).await;
            let is_replayed = response.header("idempotent-replayed").is_some();
            if is_replayed {
                // The copy in Sent is recorded after the message.
                let mut unfiled = first.clone();
                unfiled.as_object_mut().unwrap().remove("savedTo");
                let replayed = &response.json;
                assert!([first, &unfiled].contains(&replayed), "{replayed}");
            }
            is_replayed
        }
        Change::Flag(uid, flag) => {
            let message = ada.message(*uid).await;
            message["flags"].to_string().contains(flag.as_str())
        }
    }
}

async fn backup(service: &Service, dir: &Path, keys: &Path) -> ProgramOutput {
    let (dir, keys) = (dir.to_str().unwrap(), keys.to_str().unwrap());
    service
        .operator_with(&["backup", dir, "--keys", keys], "")
        .await
}

async fn restore(service: &Service, dir: &Path, keys: &Path, options: &[&str]) -> ProgramOutput {
    let (dir, keys) = (dir.to_str().unwrap(), keys.to_str().unwrap());
    let arguments = [&["restore", dir, "--keys", keys, "--yes"], options].concat();
    service.operator_with(&arguments, "").await
}

/// Asserts that the running service has the account of the backup. Without a mail server, no
/// account can sign in.
async fn assert_has_account(service: &Service) {
    let listed = service.operator("account list", "").await.succeeds();
    assert!(listed.contains(&format!("ada@{DOMAIN}")), "{listed}");
    service.send("GET /api/health").await.succeeds(200);
}

fn cursor(page: &Value) -> &str {
    page["cursor"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_before_a_backup_under_load_is_restored_and_none_in_part() {
    let mut service = Service::with_mail().await;
    let (dir, keys) = (service.state.join("backup"), service.state.join("key.copy"));
    let changes = Changes::default();
    let ada = service.person("ada").await;
    service.person("bob").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "before").await;
    let before = ada.uid_of("INBOX", "before").await;
    let old = ada.changes("", "").await.succeeds(200);
    let begun = under_load(&ada, before, &changes, async {
        wait_until("changes of all kinds are acknowledged", async || {
            let changes = changes.lock().unwrap();
            let kinds: HashSet<_> = changes.iter().map(|(_, one)| discriminant(one)).collect();
            kinds.len() == 5 && changes.len() >= 20
        })
        .await;
        let begun = Instant::now();
        let output = backup(&service, &dir, &keys).await.succeeds();
        assert!(output.contains("Wrote the backup of "), "{output}");
        let key = format!("A copy of the key is in {}.\n", keys.display());
        assert!(output.ends_with(&key), "{output}");
        sleep(Duration::from_millis(300)).await;
        begun
    })
    .await;
    append_message(&mut client, "INBOX", "after").await;
    let after = ada.uid_of("INBOX", "after").await;
    ada.changes(cursor(&old), "").await.succeeds(200);
    let new = ada.changes("", "").await.succeeds(200);
    let (address, access) = (ada.address.clone(), ada.access.clone());
    let refresh = ada.refresh.clone();

    service.stop().await;
    service.lose_database().await;
    fs::remove_file(service.state.join("latchmail.key")).unwrap();
    append_message(&mut client, "INBOX", "while stopped").await;
    let output = restore(&service, &dir, &keys, &[]).await.succeeds();
    assert!(output.contains("Restored the backup of "), "{output}");
    service.restart().await;

    // The session is older than the backup.
    let ada = Person {
        service: &service,
        address,
        access,
        refresh,
    };
    for query in PARTS {
        assert_eq!(service.number(query).await, 0, "{query}");
    }
    let changes = changes.into_inner().unwrap();
    for (at, change) in &changes {
        let restored = is_restored(&ada, change).await;
        assert!(restored || *at >= begun, "lost: {change:?}");
    }
    // A message with a number at the backup keeps the number. The other numbers were given out by
    // the lost database, and are not used again.
    assert_eq!(ada.uid_of("INBOX", "before").await, before);
    for subject in ["after", "while stopped"] {
        assert!(ada.uid_of("INBOX", subject).await > 1_000_000_000_000_000);
    }
    let line = format!("GET /api/v1/mail/messages/{after}");
    ada.send(&line).await.fails(404, "Message not found");
    for page in [&old, &new] {
        ada.changes(cursor(page), "")
            .await
            .fails(410, "Cursor expired");
    }
    let page = ada.changes("", "").await.succeeds(200);
    append_message(&mut client, "INBOX", "latest").await;
    let page = ada.changes(cursor(&page), "").await.succeeds(200);
    assert_eq!(page["changes"].as_array().unwrap().len(), 1, "{page}");
    let found = ada.send("GET /api/v1/mail/search?q=latest").await;
    assert_eq!(found.succeeds(200)["total"], 1);
    let events = service.operator("audit --limit 1000", "").await.succeeds();
    assert!(events.contains("backup_restored"), "{events}");
}

/// Replaces a text in a file.
fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

/// Returns the file of the database in a backup.
fn database_file(dir: &Path) -> PathBuf {
    let files = ["latchmail.db", "latchmail.dump"].map(|name| dir.join(name));
    files.into_iter().find(|file| file.exists()).unwrap()
}

#[tokio::test]
async fn a_backup_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut service = Service::start().await;
    service.create_account(&format!("ada@{DOMAIN}")).await;
    let (dir, keys) = (service.state.join("backup"), service.state.join("key.copy"));
    let inside = dir.join("key");
    fs::create_dir(&dir).unwrap();
    let refused = backup(&service, &dir, &inside).await;
    refused.fails_mentioning("in the folder of the backup");
    backup(&service, &dir, &keys).await.succeeds();
    assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&dir).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{entry:?}");
        let bytes = fs::read(entry.path()).unwrap();
        let key = fs::read_to_string(&keys).unwrap();
        let key = key.lines().last().unwrap().as_bytes().to_vec();
        assert!(
            !bytes.windows(key.len()).any(|part| part == key),
            "{entry:?}"
        );
    }
    backup(&service, &dir, &keys)
        .await
        .fails_mentioning("is not empty");
    let running = restore(&service, &dir, &keys, &[]).await;
    running.fails_mentioning("the service is running");
    service.stop().await;
    restore(&service, &dir, &keys, &[])
        .await
        .fails_mentioning("only restored to an empty database");

    service.lose_database().await;
    let key_file = service.state.join("latchmail.key");
    fs::rename(&key_file, service.state.join("lost.key")).unwrap();
    let other = service.state.join("other.key");
    let line = "gX1vY3h5wQ2nM8rT6uK0pB4cZ7dF9sA1eH3jL5oN2iU=\n";
    fs::write(&other, line).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    restore(&service, &dir, &other, &[])
        .await
        .fails_mentioning("does not contain the key ");
    fs::copy(&other, &key_file).unwrap();
    restore(&service, &dir, &keys, &[])
        .await
        .fails_mentioning("contains other keys");
    fs::remove_file(&key_file).unwrap();
    let manifest = dir.join("backup.json");
    replace(&manifest, "\"format\": 1", "\"format\": 2");
    restore(&service, &dir, &keys, &[])
        .await
        .fails_mentioning("has the format 2");
    replace(&manifest, "\"format\": 2", "\"format\": 1");
    replace(&manifest, "\"schema\": ", "\"schema\": 9");
    restore(&service, &dir, &keys, &[])
        .await
        .fails_mentioning("a later version of Latchmail");
    replace(&manifest, "\"schema\": 9", "\"schema\": ");
    let database = database_file(&dir);
    let bytes = fs::read(&database).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    fs::write(&database, damaged).unwrap();
    restore(&service, &dir, &keys, &[])
        .await
        .fails_mentioning("its checksum is not");
    fs::write(&database, bytes).unwrap();
    fs::rename(&manifest, dir.join("hidden")).unwrap();
    restore(&service, &dir, &keys, &[])
        .await
        .fails_mentioning("not a complete backup");
    fs::rename(dir.join("hidden"), &manifest).unwrap();
    assert!(!key_file.exists(), "a refused restore installs no key");

    let arguments = ["--end-sessions", "--end-app-passwords"];
    restore(&service, &dir, &keys, &arguments).await.succeeds();
    service.restart().await;
    assert_has_account(&service).await;
}

#[tokio::test]
async fn a_restore_ends_the_app_passwords_that_were_revoked_after_the_backup() {
    const COUNT: &str = "SELECT COUNT(*) FROM app_passwords";
    const KEPT: &str = "SELECT COUNT(*) FROM app_passwords WHERE label = 'kept'";
    let mut service = Service::start().await;
    let url = service.database().url;
    // A PostgreSQL server would need a second database. The tests of `latchmail-directory` read the
    // replaced database on both.
    let Some(database) = url.strip_prefix("sqlite:") else {
        return;
    };
    let address = format!("ada@{DOMAIN}");
    service.create_account(&address).await;
    for _ in 0..2 {
        app_password(&service.database(), &address, service.clock.now()).await;
    }
    let label = "UPDATE app_passwords SET kind = 'app_password', label = CASE \
        WHEN id = (SELECT MIN(id) FROM app_passwords) THEN 'revoked' ELSE 'kept' END";
    service.execute(label).await;
    let (dir, keys) = (service.state.join("backup"), service.state.join("key.copy"));
    backup(&service, &dir, &keys).await.succeeds();
    service
        .execute("DELETE FROM app_passwords WHERE label = 'revoked'")
        .await;
    service.stop().await;
    let replaced = service.state.join("replaced.db");
    fs::rename(database, &replaced).unwrap();
    let options = ["--replaced", replaced.to_str().unwrap()];
    let restored = restore(&service, &dir, &keys, &options).await.succeeds();
    let (ended, valid) = restored.split_once("Valid app passwords").unwrap();
    assert!(
        ended.contains("revoked ") && valid.contains("kept"),
        "{restored}"
    );
    service.restart().await;
    assert_eq!(service.number(COUNT).await, 1);
    assert_eq!(service.number(KEPT).await, 1);
}

#[tokio::test]
async fn an_archive_that_cannot_be_restored_leaves_an_empty_database() {
    let mut service = Service::start().await;
    service.create_account(&format!("ada@{DOMAIN}")).await;
    let (dir, keys) = (service.state.join("backup"), service.state.join("key.copy"));
    backup(&service, &dir, &keys).await.succeeds();
    service.stop().await;
    service.lose_database().await;
    let key_file = service.state.join("latchmail.key");
    fs::remove_file(&key_file).unwrap();
    // The copy of the database is cut off, but its size and checksum are those of the manifest.
    let cut = service.state.join("cut");
    let mut copy = Command::new("cp");
    ProgramOutput::of(copy.arg("-r").args([&dir, &cut]), "")
        .await
        .succeeds();
    let database = database_file(&cut);
    let sizes_and_sums = async || {
        let mut command = Command::new("sha256sum");
        let output = ProgramOutput::of(command.arg(&database), "")
            .await
            .succeeds();
        let size = format!("\"size\": {},", database.metadata().unwrap().len());
        [size, output.split(' ').next().unwrap().to_owned()]
    };
    let before = sizes_and_sums().await;
    let bytes = fs::read(&database).unwrap();
    fs::write(&database, &bytes[..bytes.len() / 3 * 2]).unwrap();
    for (before, after) in before.iter().zip(&sizes_and_sums().await) {
        replace(&cut.join("backup.json"), before, after);
    }
    let refused = restore(&service, &cut, &keys, &[]).await;
    refused.fails_mentioning("nothing was restored");
    assert!(!key_file.exists());

    restore(&service, &dir, &keys, &[]).await.succeeds();
    service.restart().await;
    assert_has_account(&service).await;
}

#[tokio::test]
async fn a_restored_database_without_its_key_opens_no_session() {
    let mut service = Service::with_mail().await;
    let (dir, keys) = (service.state.join("backup"), service.state.join("key.copy"));
    let ada = service.person("ada").await;
    assert_eq!(ada.total("INBOX").await, 0);
    let (access, refresh) = (ada.access.clone(), ada.refresh.clone());
    backup(&service, &dir, &keys).await.succeeds();
    service.stop().await;
    service.lose_database().await;
    restore(&service, &dir, &keys, &[]).await.succeeds();
    let key_file = service.state.join("latchmail.key");
    let another = format!("{}\n", STANDARD.encode([7; 32]));
    fs::write(&key_file, &another).unwrap();
    service.restart().await;
    let line = "GET /api/v1/mail/folders/INBOX/messages";
    let refused = service.with_bearer(line, &access).await;
    assert_eq!(refused.status, 401, "{}", refused.json);
    let body = json!({ "refreshToken": refresh });
    let refreshed = service.post("/api/v1/auth/refresh", &body).await;
    if refreshed.status == 200 {
        let access = refreshed.json["accessToken"].as_str().unwrap();
        let refused = service.with_bearer(line, access).await;
        assert_eq!(refused.status, 401, "{}", refused.json);
    }
    // Together with the right key, the same session opens again.
    service.stop().await;
    let right = fs::read_to_string(&keys).unwrap();
    fs::write(&key_file, format!("{another}{right}")).unwrap();
    service.restart().await;
    service.with_bearer(line, &access).await.succeeds(200);
}

/// Returns the lines of all `sh` blocks of the page. Blocks in lists are indented.
fn commands_of_page() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/backup.md");
    let page = fs::read_to_string(page).unwrap();
    let mut commands = Vec::new();
    let mut inside = false;
    for line in page.lines().map(str::trim) {
        match line {
            "```sh" => inside = true,
            _ if line.starts_with("```") => inside = false,
            _ if inside => commands.push(line.to_owned()),
            _ => {}
        }
    }
    commands
}

#[tokio::test]
async fn the_commands_of_the_page_back_up_and_restore() {
    let mut service = Service::start().await;
    service.create_account(&format!("ada@{DOMAIN}")).await;
    let state = service.state.clone();
    let bin = state.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(program(), bin.join("latchmail")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let config = service.operator_config();
    let on_sqlite = service.database().url.starts_with("sqlite:");
    let commands = commands_of_page();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands {
        match command.as_str() {
            _ if command.starts_with("systemctl stop latchmail ") => {
                service.stop().await;
                if !on_sqlite {
                    service.lose_database().await;
                }
            }
            _ if command.starts_with("systemctl start latchmail ") => service.restart().await,
            _ if !on_sqlite && command.starts_with("mv ") => {}
            _ => {
                let state = state.to_str().unwrap();
                let sqlite = " --replaced /var/lib/latchmail/old/latchmail.db";
                let command = if on_sqlite {
                    command
                } else {
                    command.replace(sqlite, "")
                };
                let command = command
                    .replace("/var/backups/latchmail", &format!("{state}/backups"))
                    .replace("/var/lib/latchmail", state)
                    .replace("/root", state);
                let mut shell = Command::new("bash");
                shell
                    .args(["-euo", "pipefail", "-c", &command])
                    .env("PATH", &path)
                    .env("LATCHMAIL_CONFIG", &config);
                ProgramOutput::of(&mut shell, "").await.succeeds();
            }
        }
    }
    assert_eq!(state.join("old/latchmail.db").exists(), on_sqlite);
    assert_has_account(&service).await;
}
