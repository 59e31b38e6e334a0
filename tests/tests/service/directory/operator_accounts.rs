//! The operator's commands, run as a user types them, and their effects on clients over HTTP, IMAP and SMTP.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use latchmail_tests::{
    Answer, EVENTUALLY, PASSWORD, Person, Said, Service, alias, cache, imap, log_in, modules,
    program,
};
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

const LOGIN: &str = "/api/v1/auth/login";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const ENDED: &str = "Mail session expired, please log in again";

async fn sign_in(service: &Service, address: &str, password: &str) -> Answer {
    let body = json!({ "email": address, "password": password });
    service.post(LOGIN, &body).await
}

async fn register(service: &Service, name: &str) -> Answer {
    let body = json!({
        "local_part": name, "domain": "first.test", "password": PASSWORD,
        "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
    });
    service.post("/api/v1/auth/register", &body).await
}

/// Whether the IMAP server accepts these credentials.
async fn opens_imap(service: &Service, address: &str, password: &str) -> bool {
    log_in(service, address, password).await.is_ok()
}

/// Whether the submission service accepts them.
async fn opens_submission(service: &Service, address: &str, password: &str) -> bool {
    let submission = service.mail().submission;
    let transport: AsyncSmtpTransport<Tokio1Executor> =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(submission.ip().to_string())
            .port(submission.port())
            .authentication(vec![Mechanism::Plain])
            .credentials(Credentials::new(address.into(), password.into()))
            .build();
    // The connection includes a login.
    transport.test_connection().await.is_ok()
}

/// The status of mail for an address from an external sender.
async fn delivery(service: &Service, to: &str) -> u16 {
    let smtp = service.mail().smtp;
    let transport: AsyncSmtpTransport<Tokio1Executor> =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(smtp.ip().to_string())
            .port(smtp.port())
            .build();
    let from = "sender@outside.test".parse().unwrap();
    let envelope = Envelope::new(Some(from), vec![to.parse().unwrap()]).unwrap();
    match transport
        .send_raw(&envelope, b"Subject: x\r\n\r\nx\r\n")
        .await
    {
        Ok(_) => 250,
        Err(error) => error.status().unwrap().into(),
    }
}

async fn done(service: &Service, verb: &str) -> String {
    service.operator(verb, "").await.done()
}

#[tokio::test]
async fn an_account_is_made_with_a_password_from_the_standard_input() {
    let service = Service::with_mail().await;
    // A reserved name, which cannot be registered.
    let made = service
        .operator("account create Postmaster@First.Test", "Pass-Word-1\n")
        .await
        .done();
    assert_eq!(made, "postmaster@first.test was created.\n");
    let answer = sign_in(&service, "postmaster@first.test", "Pass-Word-1").await;
    assert_eq!(answer.succeeds(200)["user"]["isAdmin"], false);
    assert_eq!(delivery(&service, "postmaster@first.test").await, 250);

    let with_profile = [
        "account",
        "create",
        "ada@second.test",
        "--first-name",
        "Ada Augusta",
        "--last-name",
        "Lovelace",
        "--dob",
        "1990-12-10",
        "--admin",
        "--plan",
        "pro",
    ];
    let made = service.operator_with(&with_profile, "Pass-Word-2").await;
    assert_eq!(made.done(), "ada@second.test was created.\n");
    let answer = sign_in(&service, "ada@second.test", "Pass-Word-2").await;
    assert_eq!(answer.succeeds(200)["user"]["isAdmin"], true);

    let shown = done(&service, "account show ada@second.test --json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    for (member, value) in [
        ("address", json!("ada@second.test")),
        ("active", json!(true)),
        ("admin", json!(true)),
        ("plan", json!("pro")),
        ("twoFactor", json!(false)),
        ("profile", json!(true)),
        ("aliases", json!([])),
    ] {
        assert_eq!(shown[member], value, "{member}");
    }
    assert_eq!(shown["credentials"].as_array().unwrap().len(), 1);
    assert_eq!(shown["credentials"][0]["type"], "web_session");
    let listed = done(&service, "account list --json").await;
    let listed: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1]["address"], "postmaster@first.test");
    assert_eq!(listed[1]["profile"], false);
}

#[tokio::test]
async fn an_account_that_cannot_be_made_is_refused_in_a_sentence() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    alias(&ada, "shop@first.test", true).await;
    for (verb, input, mention) in [
        ("account create ada@first.test", "Pass-Word-1\n", "already"),
        ("account create shop@first.test", "Pass-Word-1\n", "alias"),
        (
            "account create eve@elsewhere.test",
            "Pass-Word-1\n",
            "elsewhere.test is not a platform domain",
        ),
        ("account create eve", "Pass-Word-1\n", "not an address"),
        (
            "account create eve@first.test",
            "password1\n",
            "upper-case letter",
        ),
        ("account create eve@first.test", "", "standard input"),
        (
            "account create eve@first.test",
            "\nPass-Word-1\n",
            "at least 8",
        ),
        (
            "account create eve@first.test --plan gold",
            "Pass-Word-1\n",
            "default, none, pro",
        ),
        (
            "account create eve@first.test --first-name E --last-name M --dob 2030-01-01",
            "Pass-Word-1\n",
            "dob",
        ),
    ] {
        let said = service.operator(verb, input).await;
        said.fails_about(mention);
        assert!(!said.err.contains("Pass-Word-1"), "{said:?}");
    }
    let partial = "account create eve@first.test --first-name E";
    let said = service.operator(partial, "Pass-Word-1\n").await;
    assert!(said.status == 2 && said.err.contains("--dob"), "{said:?}");
    assert_eq!(
        done(&service, "account list --json").await.lines().count(),
        1
    );
}

#[tokio::test]
async fn a_password_that_is_made_is_shown_once_and_signs_in() {
    let service = Service::with_mail().await;
    let said = done(&service, "account create eve@first.test --generate").await;
    let first = said.lines().last().unwrap().to_owned();
    sign_in(&service, "eve@first.test", &first)
        .await
        .succeeds(200);
    let said = done(&service, "account password eve@first.test --generate").await;
    let second = said.lines().last().unwrap();
    assert_ne!(first, second);
    sign_in(&service, "eve@first.test", &first)
        .await
        .fails(401, "Invalid credentials");
    sign_in(&service, "eve@first.test", second)
        .await
        .succeeds(200);
}

#[tokio::test]
async fn a_password_among_the_arguments_is_refused_and_not_repeated() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    for verb in [
        "account password ada@first.test Secret-Pass-1",
        "account password ada@first.test --password Secret-Pass-1",
        "account password ada@first.test --password=Secret-Pass-1",
        "account create eve@first.test Secret-Pass-1",
        "account create eve@first.test --password=Secret-Pass-1",
    ] {
        let said = service.operator(verb, "Other-Pass-1\n").await;
        assert_eq!(said.status, 2, "{said:?}");
        assert!(!said.err.contains("Secret-Pass-1"), "{said:?}");
        assert!(said.err.contains("standard input"), "{said:?}");
    }
    sign_in(&service, "ada@first.test", PASSWORD)
        .await
        .succeeds(200);
}

#[tokio::test]
async fn who_gives_up_typing_a_password_has_the_terminal_as_it_was() {
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
        timeout(EVENTUALLY, typed).await.unwrap();
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
async fn a_disabled_account_is_shut_out_everywhere_at_once() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let client = ada.app_password("Phone").await;
    let client = client["password"].as_str().unwrap().to_owned();
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    let mut open = log_in(&service, &ada.address, &client).await.unwrap();
    let mut bobs = imap(&bob).await;
    assert!(opens_submission(&service, &ada.address, &client).await);
    ada.ask(FOLDERS).await.succeeds(200);
    service.with_bearer(FOLDERS, token).await.succeeds(200);

    let said = done(&service, "account disable ada@first.test").await;
    assert!(said.contains("is disabled, and every credential"), "{said}");
    ada.ask(FOLDERS).await.fails(401, ENDED);
    let refresh = json!({ "refreshToken": ada.refresh });
    let answer = service.post("/api/v1/auth/refresh", &refresh).await;
    answer.fails(401, "Invalid or expired refresh token");
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    let refused = service.with_bearer(FOLDERS, token).await;
    refused.fails(401, "This API token has been revoked");
    let ended = async { while open.noop().await.is_ok() {} };
    timeout(EVENTUALLY, ended).await.unwrap();
    assert!(!opens_imap(&service, &ada.address, &client).await);
    assert!(!opens_submission(&service, &ada.address, &client).await);
    bobs.noop().await.unwrap();
    assert_eq!(delivery(&service, &ada.address).await, 550);
    bob.ask(FOLDERS).await.succeeds(200);
    let said = done(&service, "account disable ada@first.test").await;
    assert!(said.contains("already"), "{said}");

    done(&service, "account enable ada@first.test").await;
    ada.ask(FOLDERS).await.fails(401, ENDED);
    assert!(!opens_imap(&service, &ada.address, &client).await);
    assert_eq!(delivery(&service, &ada.address).await, 250);
    let again = ada.again().await;
    again.ask(FOLDERS).await.succeeds(200);
    let said = done(&service, "account enable ada@first.test").await;
    assert!(said.contains("already"), "{said}");
}

#[tokio::test]
async fn another_password_ends_every_session_and_opens_a_new_one() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let elsewhere = ada.again().await;
    let mut client = imap(&ada).await;
    let token = ada.token(&["mail:read"]).await;
    let said = service
        .operator("account password ada@first.test", "Pass-Word-1\r\n")
        .await
        .done();
    assert!(!said.contains("Pass-Word-1"), "{said}");
    for session in [&ada, &elsewhere] {
        session.ask(FOLDERS).await.fails(401, ENDED);
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

#[tokio::test]
async fn a_deleted_account_leaves_its_addresses_to_nobody_until_they_are_freed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    alias(&ada, "shop@first.test", true).await;
    let shown = done(&service, "account show ada@first.test --json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let id = shown["id"].as_str().unwrap();

    let said = service
        .operator("account delete ada@first.test", "ada@second.test\n")
        .await;
    assert_eq!(said.status, 1);
    assert!(said.err.contains("nothing was deleted"), "{said:?}");
    ada.ask(FOLDERS).await.succeeds(200);

    let said = service
        .operator("account delete ada@first.test", "ada@first.test\n")
        .await;
    assert_eq!(said.status, 0, "{said:?}");
    assert!(said.out.contains(id), "{said:?}");
    ada.ask(FOLDERS).await.fails(401, ENDED);
    sign_in(&service, &ada.address, PASSWORD)
        .await
        .fails(401, "Invalid credentials");
    for address in ["ada@first.test", "shop@first.test"] {
        assert_eq!(delivery(&service, address).await, 550, "{address}");
    }
    for name in ["ada", "shop"] {
        register(&service, name)
            .await
            .fails(409, "This email address is already taken");
    }
    service
        .operator("account create ada@first.test --generate", "")
        .await
        .fails_about("account free");

    let audit = "audit --account ada@first.test";
    let record = done(&service, audit).await;
    assert!(record.contains("account_deleted"), "{record}");
    let said = done(&service, "account free ada@first.test").await;
    assert!(said.contains("any account can use it"), "{said}");
    let said = done(&service, "account free ada@first.test").await;
    assert!(said.contains("is not reserved"), "{said}");
    let anew = register(&service, "ada").await.succeeds(201);
    let record = done(&service, audit).await;
    assert!(record.contains("account_created"), "{record}");
    assert!(!record.contains("account_deleted"), "{record}");
    register(&service, "shop")
        .await
        .fails(409, "This email address is already taken");
    service
        .operator("account free ada@first.test", "")
        .await
        .fails_about("in use");
    // Another person's mailbox, without any mail of the first one's.
    let eve = Person {
        access: anew["accessToken"].as_str().unwrap().into(),
        ..ada
    };
    assert_eq!(eve.total("INBOX").await, 0);
    let said = done(&service, "account delete ada@first.test --yes").await;
    assert!(!said.contains(id), "{said}");
}

#[tokio::test]
async fn plan_and_rank_are_changed_and_what_is_so_already_is_said() {
    let service = Service::with_mail().await;
    service.person("ada").await;
    for (verb, sentence) in [
        ("plan ada@first.test pro", "is on the plan pro."),
        ("plan ada@first.test pro", "is on the plan pro already."),
        ("plan ada@first.test default", "is on the plan default."),
        ("admin ada@first.test on", "is an administrator."),
        ("admin ada@first.test on", "is already an administrator."),
    ] {
        let said = done(&service, &format!("account {verb}")).await;
        assert!(said.trim_end().ends_with(sentence), "{said}");
    }
    let answer = sign_in(&service, "ada@first.test", PASSWORD).await;
    assert_eq!(answer.succeeds(200)["user"]["isAdmin"], true);
    service
        .operator("account plan ada@first.test gold", "")
        .await
        .fails_about("default, none, pro");
    done(&service, "account admin ada@first.test off").await;
    let answer = sign_in(&service, "ada@first.test", PASSWORD).await;
    assert_eq!(answer.succeeds(200)["user"]["isAdmin"], false);
}

#[tokio::test]
async fn an_unknown_account_is_named_in_the_error() {
    let service = Service::start().await;
    for verb in [
        "show nobody@first.test",
        "password nobody@first.test --generate",
        "disable nobody@first.test",
        "enable nobody@first.test",
        "delete nobody@first.test --yes",
        "plan nobody@first.test pro",
        "admin nobody@first.test on",
        "two-factor nobody@first.test on",
        "two-factor nobody@first.test off",
        "two-factor nobody@first.test recovery-codes",
    ] {
        service
            .operator(&format!("account {verb}"), "")
            .await
            .fails_about("there is no account nobody@first.test");
    }
    let said = done(&service, "account list").await;
    assert_eq!(said, "There are no accounts.\n");
    service.person("ada").await;
    let off = "account two-factor ada@first.test recovery-codes";
    service.operator(off, "").await.fails_about("off");
}

#[tokio::test]
async fn what_is_shown_to_people_holds_no_secret() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    alias(&ada, "shop@first.test", false).await;
    done(&service, "account two-factor ada@first.test on").await;
    let shown = done(&service, "account show ada@first.test").await;
    for part in [
        "ada@first.test",
        "shop@first.test  (inactive)",
        "web_session",
        "two-factor    on",
        "plan          default",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let listed = done(&service, "account list").await;
    let said = format!("{shown}{listed}{}", done(&service, "audit --json").await);
    for secret in ["argon2", PASSWORD, "sealed", "hash"] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
}

#[tokio::test]
async fn attempts_on_made_up_addresses_do_not_fill_the_record() {
    let service = Service::start().await;
    for n in 0..103 {
        let refused = sign_in(&service, &format!("n{n}@first.test"), "Wrong-Horse-7").await;
        refused.fails(401, "Invalid credentials");
    }
    let said = done(&service, "audit --json --limit 1000").await;
    let failed: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "sign_in_failed")
        .collect();
    assert_eq!(failed.len(), 100);
    assert_eq!(failed[99]["address"], "n102@first.test");
    assert_eq!(failed[99]["unlisted"], 3);
}

#[tokio::test]
async fn the_record_tells_what_happened_to_whom_by_whom() {
    let service = Service::with_mail().await;
    let (ada, _) = (service.person("ada").await, service.person("bob").await);
    sign_in(&service, "ada@first.test", "Wrong-Horse-7").await;
    ada.again().await;
    done(&service, "account disable ada@first.test").await;
    let said = done(&service, "audit --account Ada@First.Test --json").await;
    let events: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<(&str, &str)> = events
        .iter()
        .map(|event| {
            let word = |member: &str| event[member].as_str().unwrap();
            (word("kind"), word("actor"))
        })
        .collect();
    assert_eq!(
        told,
        [
            ("account_created", "ada@first.test"),
            ("sign_in_failed", ""),
            ("signed_in", "ada@first.test"),
            ("account_disabled", "operator"),
        ]
    );
    assert_eq!(events[2]["client"], "127.0.0.1");

    // Besides these and those of the other account: six events of the configured modules.
    assert_eq!(done(&service, "audit").await.lines().count(), 11);
    let newest = done(&service, "audit --limit 1").await;
    assert!(newest.contains("account_disabled"), "{newest}");
    assert_eq!(done(&service, "audit --since 1h").await.lines().count(), 11);
    assert_eq!(done(&service, "audit --since 2099-01-01").await, "");
    service
        .operator("audit --since yesterday", "")
        .await
        .fails_about("yesterday");
}

#[tokio::test]
async fn without_a_configuration_a_verb_says_what_to_give() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command
        .env_clear()
        .current_dir(&folder)
        .args(["account", "list"]);
    let said = Said::by(&mut command, "").await;
    said.fails_about("--config FILE");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let mut command = Command::new(program());
    command
        .env_clear()
        .current_dir(&folder)
        .env("LATCHMAIL_CONFIG", "missing.toml")
        .arg("audit");
    Said::by(&mut command, "").await.fails_about("missing.toml");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[tokio::test]
async fn the_configuration_is_named_behind_the_verb_or_the_refusal_says_so() {
    let service = Service::start().await;
    service.person("ada").await;
    let config = service.operator_config();
    let config = config.to_str().unwrap();
    let joined = format!("--config={config}");
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.env_clear().args(arguments);
        Said::by(&mut command, "").await
    };
    for arguments in [
        ["account", "list", "--config", config].as_slice(),
        &["account", "--config", config, "list"],
        &["account", "list", &joined],
        &["audit", "--config", config],
    ] {
        let said = run(arguments).await.done();
        assert!(said.contains("ada@first.test"), "{said}");
    }
    for arguments in [
        ["--config", config, "account", "list"].as_slice(),
        &[&joined, "account", "list"],
    ] {
        let said = run(arguments).await;
        assert_eq!(said.status, 2, "{said:?}");
        assert!(said.err.contains("must follow the command"), "{said:?}");
    }
    for arguments in [["help", "account"], ["account", "--help"]] {
        let said = run(&arguments).await.done();
        for part in ["two-factor", "--config <FILE>", "Create, show and change"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let widest = said.lines().map(|line| line.chars().count()).max();
        assert!(widest < Some(180), "{said}");
    }
}

#[tokio::test]
async fn a_configuration_that_others_may_have_put_there_is_not_taken() {
    let service = Service::start().await;
    service.person("ada").await;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join(".latchmail");
    std::fs::create_dir(&state).unwrap();
    std::fs::copy(service.operator_config(), state.join("latchmail.toml")).unwrap();
    let listed = async |mode| {
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(program());
        command
            .env_clear()
            .current_dir(&folder)
            .args(["account", "list"]);
        Said::by(&mut command, "").await
    };
    listed(0o777)
        .await
        .fails_about("other users can write to it");
    let said = listed(0o755).await.done();
    assert!(said.contains("ada@first.test"), "{said}");
}

#[tokio::test]
async fn two_factor_makes_no_key_that_the_service_does_not_have() {
    let service = Service::start().await;
    service.person("ada").await;
    let key = service.state.join("latchmail.key");
    let aside = service.state.join("aside.key");
    std::fs::rename(&key, &aside).unwrap();
    let verb = "account two-factor ada@first.test on";
    service
        .operator(verb, "")
        .await
        .fails_about("latchmail.key");
    assert!(!key.exists());
    std::fs::rename(&aside, &key).unwrap();
    done(&service, verb).await;
}

/// The commands find the configuration in the state folder of `latchmail dev`, while it runs and afterwards.
#[tokio::test]
async fn a_verb_finds_what_latchmail_dev_left() {
    let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
    let verb = async |arguments: &str| {
        let mut command = Command::new(program());
        command
            .env_clear()
            .env("LATCHMAIL_STATE", folder.path())
            .args(arguments.split(' '));
        Said::by(&mut command, "").await
    };
    let log = std::fs::File::create(folder.path().join("dev.log")).unwrap();
    let mut dev = Command::new(program())
        .arg("dev")
        .env("LATCHMAIL_STATE", folder.path())
        .env("LATCHMAIL_MODULES", modules())
        .env("LATCHMAIL_CACHE_DIR", cache())
        .env("LATCHMAIL_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let run = folder.path().join("run.json");
    // It starts mail servers first.
    let patience = tokio::time::Instant::now() + 6 * EVENTUALLY;
    while !run.exists() {
        let waited = tokio::time::Instant::now() < patience && dev.try_wait().unwrap().is_none();
        assert!(waited, "{}", read(&folder.path().join("dev.log")));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let kept = folder.path().join("latchmail.toml");
    let mode = std::fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let run: Value = serde_json::from_str(&read(&run)).unwrap();
    let listen = run["baseUrl"].as_str().unwrap().replace("http://", "");
    assert!(read(&kept).contains(&format!("listen = \"{listen}\"")));
    verb("account two-factor demo@latchmail.test on")
        .await
        .done();
    let demo = json!({ "email": run["demo"]["email"], "password": run["demo"]["password"] });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{listen}{LOGIN}");
    Answer::of(client.post(url).json(&demo))
        .await
        .fails(401, "Two-factor code required");

    let pid = i32::try_from(dev.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(dev.wait().await.unwrap().success());
    let shown = verb("account show demo@latchmail.test").await.done();
    assert!(shown.contains("two-factor    on"), "{shown}");
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}
