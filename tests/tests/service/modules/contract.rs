//! The contract between host and modules: components built against an older contract work, and the
//! error for an incompatible component names the difference. `tests/contract/` has a copy of each
//! released version, and `older`, an artificial contract with fewer functions than the current one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use latchmail_runtime::modules::CONTRACT;
use latchmail_tests::{Person, Response, Service, fixtures, load_problem};
use serde_json::json;

/// A contract: texts by file name.
type Contract = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn contract(folder: &Path) -> Contract {
    let read = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, fs::read_to_string(file.path()).unwrap())
    };
    fs::read_dir(folder)
        .unwrap()
        .map(|file| read(file.unwrap()))
        .collect()
}

/// Returns the contract of this host.
fn current() -> Contract {
    contract(&root().join("wit"))
}

/// Returns the contracts that this host must support, by version: all released ones and `older`.
fn supported() -> BTreeMap<String, Contract> {
    fs::read_dir(root().join("tests/contract"))
        .unwrap()
        .map(|folder| folder.unwrap())
        .map(|folder| {
            let version = folder.file_name().into_string().unwrap();
            (version, contract(&folder.path()))
        })
        .collect()
}

/// Returns all statements of a contract, each with its path: a function, a whole record, a name
/// that is used.
fn statements(contract: &Contract) -> BTreeSet<String> {
    let mut output = BTreeSet::new();
    for text in without_comments(contract).split("\n\n") {
        let mut within: Vec<String> = Vec::new();
        let mut statement = String::new();
        let mut whole = 0;
        for character in text.chars() {
            let begins = |kind: &str| statement.trim_start().starts_with(kind);
            match character {
                '{' if ["interface ", "world ", "resource "]
                    .into_iter()
                    .any(begins) =>
                {
                    within.push(statement.trim().to_owned());
                    statement.clear();
                }
                '{' => {
                    whole += 1;
                    statement.push('{');
                }
                '}' if whole == 0 => {
                    within.pop();
                    statement.clear();
                }
                _ => {
                    statement.push(character);
                    whole -= u32::from(character == '}');
                    let is_use = statement.trim_start().starts_with("use ");
                    let ends = character == ';' || (character == '}' && !is_use);
                    if whole > 0 || !ends {
                        continue;
                    }
                    let place = within.join(" ");
                    let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                    match words
                        .strip_prefix("use ")
                        .and_then(|rest| rest.split_once(".{"))
                    {
                        Some((from, used)) => {
                            let used = used.trim_end_matches("};").split(',').map(str::trim);
                            output.extend(used.map(|name| format!("{place}: use {from}.{name}")));
                        }
                        None => output.extend([format!("{place}: {words}")]),
                    }
                    statement.clear();
                }
            }
        }
    }
    output
}

#[test]
fn the_contract_contains_all_statements_of_every_supported_contract() {
    let supported = supported();
    let current = statements(&current());
    for (version, contract) in &supported {
        let before = statements(contract);
        let missing: Vec<_> = before.difference(&current).collect();
        assert!(
            missing.is_empty(),
            "wit/ lacks statements of {version}: {missing:#?}"
        );
    }
    assert!(statements(&supported["older"]).len() < current.len());
}

#[test]
fn every_change_of_a_contract_is_detected() {
    let before = current();
    for (file, old, new) in [
        (
            "types.wit",
            "        internal,",
            "        internal,\n        asleep,",
        ),
        ("module.wit", "        deadline: u32,", ""),
        ("mailbox.wit", "limit: u32,", "limit: u64,"),
        ("mailbox.wit", "use blobs.{blob};", ""),
        ("blobs.wit", "size: func() -> u64;", "size: func() -> u32;"),
        ("log.wit", "write: func(level: level, message: string);", ""),
        ("worlds.wit", "    import outbox;", ""),
    ] {
        let mut changed = before.clone();
        let text = changed.get_mut(file).unwrap();
        assert!(text.contains(old), "{file} has no {old:?}");
        *text = text.replacen(old, new, 1);
        let gone = statements(&before)
            .difference(&statements(&changed))
            .count();
        assert_eq!(gone, 1, "{file}: {old:?}");
    }
}

/// Returns the module built against the older contract, with names replaced by others of the same
/// length.
fn renamed(names: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = fs::read(fixtures().join("fixture_older.wasm")).unwrap();
    for (old, new) in names {
        assert_eq!(old.len(), new.len(), "{old} {new}");
        let places: Vec<usize> = bytes
            .windows(old.len())
            .enumerate()
            .filter(|(_, bytes)| *bytes == old.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "there is no {old}");
        for at in places {
            bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
        }
    }
    bytes
}

fn settings(source: &Path) -> String {
    let mut settings = String::new();
    for line in [
        &*format!("source = '{}'", source.display()),
        "grants = ['caller', 'mailbox']",
        "paths = ['/older/']",
        "config = { colour = 'green' }",
    ] {
        settings.extend(["modules.older.", line, "\n"]);
    }
    settings
}

/// Returns the error for a component that is not loaded.
async fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("older.wasm");
    fs::write(&source, bytes).unwrap();
    let sentence = load_problem(&settings(&source)).await;
    let reason = sentence.strip_prefix("module `older` cannot be loaded: ");
    reason.unwrap_or(&sentence).to_owned()
}

#[tokio::test]
async fn an_incompatible_component_is_refused_with_both_versions() {
    let ends = format!("; its contract is version {CONTRACT}");
    for (old, new, reason) in [
        (
            "@1.0.0",
            "@2.0.0",
            vec![
                "it was built against version 2.0.0 of the contract (latchmail:host/",
                "), but this host supports ",
                CONTRACT,
            ],
        ),
        (
            "latchmail:host/mailbox",
            "latchmail:host/journal",
            vec![
                "it imports latchmail:host/journal@1.0.0, which this host does not have",
                &ends,
            ],
        ),
        (
            "list-folders",
            "list-fillers",
            vec![
                "it imports `list-fillers` of latchmail:host/mailbox@1.0.0, which this host does not have",
                &ends,
            ],
        ),
        (
            "[method]blob.size",
            "[method]blob.sigh",
            vec![
                "it imports `[method]blob.sigh` of latchmail:host/blobs@1.0.0, which this host does not have",
                &ends,
            ],
        ),
        (
            "preview",
            "teasers",
            vec![
                "of latchmail:host/mailbox@1.0.0 with a type that differs from this host's",
                &ends,
                "teasers",
            ],
        ),
        (
            "credential-refused",
            "credential-revoked",
            vec![
                "with a type that differs from this host's",
                &ends,
                "credential-revoked",
            ],
        ),
        (
            "max-body",
            "top-body",
            vec![
                "it exports latchmail:host/module with a type that differs from the contract, version ",
                CONTRACT,
                "top-body",
            ],
        ),
        (
            "describe",
            "descripe",
            vec!["it exports latchmail:host/module@1.0.0 without the function `describe`"],
        ),
        (
            "latchmail:host/module",
            "latchmail:host/modest",
            vec![
                "it does not export latchmail:host/module@",
                "which every module must export; it exports latchmail:host/modest@1.0.0",
            ],
        ),
    ] {
        let output = refused(&renamed(&[(old, new)])).await;
        for mention in reason {
            assert!(
                output.contains(mention),
                "{output:?} does not mention {mention:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_component_built_against_a_newer_version_works_if_it_uses_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("older.wasm");
    fs::write(&source, renamed(&[("@1.0.0", "@1.9.9")])).unwrap();
    let service = Service::with(&settings(&source)).await;
    let ada = service.person("ada").await;
    ada.send("GET /older/folders").await.succeeds(200);
}

#[tokio::test]
async fn a_file_that_is_not_a_component_is_not_loaded() {
    let core_module = b"\0asm\x01\0\0\0";
    let output = refused(core_module).await;
    assert!(
        output.starts_with("it is a core WebAssembly module, not a component"),
        "{output}"
    );
}

/// Returns the contract's text without versions and comments, which may change freely. An empty
/// line ends each file.
fn without_comments(contract: &Contract) -> String {
    let mut bare = String::new();
    for text in contract.values() {
        for line in text.lines().map(str::trim) {
            let comment = line.starts_with("//") || line.starts_with("package ");
            if !line.is_empty() && !comment {
                writeln!(bare, "{line}").unwrap();
            }
        }
        bare.push('\n');
    }
    bare
}

#[test]
fn a_changed_contract_has_a_new_version() {
    let (current, supported) = (current(), supported());
    let minor = |version: &str| -> u32 { version.split('.').nth(1).unwrap().parse().unwrap() };
    let older_minors = supported
        .keys()
        .filter(|version| *version != "older" && *version != CONTRACT);
    let older_minors: BTreeSet<u32> = older_minors.map(|version| minor(version)).collect();
    assert_eq!(
        older_minors,
        (0..minor(CONTRACT)).collect(),
        "a released version has no copy"
    );
    if let Some(released) = supported.get(CONTRACT) {
        assert!(
            without_comments(released) == without_comments(&current),
            "wit/ differs from tests/contract/{CONTRACT}, which is released: raise the version"
        );
    }
    for (name, text) in current {
        let package = format!("package latchmail:host@{CONTRACT};");
        assert_eq!(text.lines().next(), Some(&*package), "{name}");
    }
}

/// Starts a service with the module built against the older contract.
async fn older() -> Service {
    Service::with_mail_and(&settings(&fixtures().join("fixture_older.wasm"))).await
}

#[tokio::test]
async fn a_module_built_for_an_older_contract_can_read_mail() {
    let service = older().await;
    let ada = service.person("ada").await;
    ada.receive(
        "From: Grace <grace@outside.test>\nSubject: Hello\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nGood morning\n--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n1,2,3\n--b--\n",
    )
    .await;
    let asked = async |person: &Person<'_>, what: &str| {
        person
            .send(&format!("GET /older/{what}"))
            .await
            .succeeds(200)
    };
    let listing = asked(&ada, "messages/INBOX").await;
    assert_eq!(listing["total"], 1);
    let message = &listing["messages"][0];
    assert_eq!(message["from"], json!(["grace@outside.test"]));
    assert_eq!(message["subject"], "Hello");
    let uid = &message["uid"];
    let detail = asked(&ada, &format!("message/{uid}")).await;
    assert_eq!(&detail["summary"], message);
    assert_eq!(detail["attachments"], json!(["a.csv"]));
    assert_eq!(detail["truncated"], false);
    let attachment = ada.send(&format!("GET /older/attachment/{uid}")).await;
    assert_eq!(attachment.status, 200);
    assert_eq!(attachment.body.trim_ascii(), b"1,2,3");
    let folders = asked(&ada, "folders").await;
    assert!(
        folders
            .as_array()
            .unwrap()
            .contains(&json!(["INBOX", 1, "\\Inbox"])),
        "{folders}"
    );
    assert_eq!(
        asked(&ada, "messages/Nowhere").await,
        json!({ "error": "Error::NotFound", "code": "fixture_failed" })
    );
    // The host authorizes requests, as for any module.
    service.send("GET /older/folders").await.fails(
        401,
        service.send("GET /api/v1/mail/folders").await.json["error"]
            .as_str()
            .unwrap(),
    );
    let token = ada.token(&["mail:send"]).await;
    let token = token["token"].as_str().unwrap();
    let refused = service.with_bearer("GET /older/folders", token).await;
    assert_eq!(refused.status, 403, "{}", refused.json);
}

#[tokio::test]
async fn a_module_built_for_an_older_contract_gets_its_settings_blobs_and_caller() {
    let service = older().await;
    let who = service.send("GET /older/who").await.succeeds(200);
    assert_eq!(
        who,
        json!({ "kind": "anonymous", "scopes": 0, "colour": "green", "settings": [["colour", "green"]] })
    );
    let echo = service.request("POST /older/echo").body("a blob");
    assert_eq!(Response::of(echo).await.body, b"a blob");
    let field = service
        .request("PUT /older/field")
        .json(&json!({ "files": ["aGVsbG8="] }));
    assert_eq!(
        Response::of(field).await.succeeds(200),
        json!({ "body": "{\"files\":[0]}", "size": 5, "read": "ell" })
    );
}

#[tokio::test]
async fn a_route_can_accept_app_passwords_which_have_the_scopes_of_mail() {
    let settings = settings(&fixtures().join("fixture_older.wasm"));
    let service = Service::with_mail_and(&format!("limits.unproven = 30\n{settings}")).await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    ada.receive("Subject: Hello\n\nHello").await;
    let phone = ada.app_password("Phone").await;
    let (address, password) = (ada.address.as_str(), phone["password"].as_str().unwrap());
    let basic = async |line: &str, user: &str, password: &str| {
        Response::of(service.request(line).basic_auth(user, Some(password))).await
    };
    let caller = basic("GET /older/any", address, password)
        .await
        .succeeds(200);
    let expected = json!({ "kind": "app-password", "scopes": 3, "colour": "green", "settings": [["colour", "green"]] });
    assert_eq!(caller, expected);
    let upper = address.to_uppercase();
    let listing = basic("GET /older/any/INBOX", &upper, password).await;
    assert_eq!(listing.succeeds(200)["total"], 1);
    // Every other kind of credential is accepted too, and the host's functions check the scopes.
    let token = ada.token(&["aliases:read"]).await;
    let token = token["token"].as_str().unwrap();
    for (credential, kind) in [(&*ada.access, "session"), (token, "api-token")] {
        let caller = service.with_bearer("GET /older/any", credential).await;
        assert_eq!(caller.succeeds(200)["kind"], kind);
    }
    let denied = service.with_bearer("GET /older/any/INBOX", token).await;
    assert!(
        denied.succeeds(200)["error"]
            .as_str()
            .unwrap()
            .contains("mail:read")
    );

    // Other routes do not accept Basic authentication.
    for route in [
        "GET /older/folders",
        "GET /older/agent",
        "GET /api/v1/mail/folders",
    ] {
        let refused = basic(route, address, password).await;
        refused.fails(401, "Missing or invalid Authorization header");
    }
    let wrong = format!(
        "{}{}",
        &password[..31],
        if password.ends_with('a') { 'b' } else { 'a' }
    );
    let invalid = "Invalid user name or app password";
    for (user, password) in [
        (address, wrong.as_str()),
        (address, "Correct-Horse-7"),
        (address, ""),
        (bob.address.as_str(), password),
        ("", password),
    ] {
        let refused = basic("GET /older/any", user, password).await;
        let challenge = refused.header("www-authenticate").unwrap().to_owned();
        assert_eq!(
            challenge,
            "Basic realm=\"Latchmail\", charset=\"UTF-8\", Bearer"
        );
        refused.fails(401, invalid);
    }
    let browser = service
        .request("GET /older/any")
        .header("sec-fetch-mode", "navigate");
    let refused = Response::of(browser).await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));

    // Attempts with wrong app passwords are limited, and do not affect a valid app password.
    let mut statuses = Vec::new();
    for _ in 0..30 {
        statuses.push(basic("GET /older/any", address, &wrong).await.status);
    }
    assert_eq!((statuses[0], statuses[29]), (401, 429));
    assert_eq!(basic("GET /older/any", address, password).await.status, 200);

    let id = phone["id"].as_str().unwrap();
    let revoke = format!("DELETE /api/v1/app-passwords/{id}");
    ada.send(&revoke).await.succeeds(200);
    let refused = basic("GET /older/any", address, password).await;
    refused.fails(401, invalid);
}
