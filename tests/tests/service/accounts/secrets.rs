//! Secrets must not appear in the log, and a stolen disk must not give access to accounts.

use std::collections::BTreeSet;
use std::path::Path;

use futures_util::{StreamExt as _, stream};
use latchmail_accounts::auth::access_token::AccessTokens;
use latchmail_core::keyring::Keyring;
use latchmail_tests::{Log, PASSWORD, Person, Service, log_in};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const OTHER: &str = "Other-Horse-8";
const WRONG: &str = "Never-Anybodys-9";

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Uses all routes with secrets, and returns every secret that occurred.
async fn tour(service: &Service) -> BTreeSet<String> {
    let ada = service.person("ada").await;
    let mut secrets = BTreeSet::from([PASSWORD, OTHER, WRONG].map(String::from));
    secrets.extend([ada.access.clone(), ada.refresh.clone()]);
    let again = ada.sign_in_again().await;
    secrets.extend([again.access.clone(), again.refresh.clone()]);
    let wrong = json!({ "email": ada.address, "password": WRONG });
    service
        .post("/api/v1/auth/login", &wrong)
        .await
        .fails(401, "Invalid credentials");
    let pair = service
        .post(
            "/api/v1/auth/refresh",
            &json!({ "refreshToken": again.refresh }),
        )
        .await
        .succeeds(200);
    secrets.extend([text(&pair["accessToken"]), text(&pair["refreshToken"])]);

    let token = ada.token(&["mail:read", "mail:send"]).await;
    let token_secret = text(&token["token"]);
    service
        .with_bearer(FOLDERS, &token_secret)
        .await
        .succeeds(200);
    service
        .with_bearer("GET /api/v1/tokens", &token_secret)
        .await
        .fails_mentioning(403, "session");
    let client = ada.app_password("Phone").await;
    let password = text(&client["password"]);
    log_in(service, &ada.address, &password).await.unwrap();
    let mail = json!({ "from": ada.address, "to": ada.address, "subject": "x", "text": "y" });
    ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
    ada.send("GET /api/v1/profile/sessions").await.succeeds(200);
    let line = format!("DELETE /api/v1/tokens/{}", text(&token["id"]));
    ada.send(&line).await.succeeds(200);
    service
        .with_bearer(FOLDERS, &token_secret)
        .await
        .fails_mentioning(401, "revoked");
    let teams = ada.send("GET /api/v1/teams").await.succeeds(200);
    let path = format!(
        "/api/v1/teams/{}/invitations",
        text(&teams["teams"][0]["id"])
    );
    service.person("bob").await;
    for (password, status) in [(WRONG, 403), (PASSWORD, 201)] {
        let bob = json!({ "username": "bob", "password": password, "resource_kind": "mailbox", "rights": ["mail:read"] });
        ada.post(&path, &bob).await.succeeds(status);
    }
    let change = |current: &str| json!({ "current_password": current, "new_password": OTHER });
    let path = "/api/v1/profile/password";
    if service.stores_passwords() {
        ada.post(path, &change(WRONG))
            .await
            .fails_mentioning(401, "incorrect");
        ada.post(path, &change(PASSWORD)).await.succeeds(200);
    } else {
        for current in [WRONG, PASSWORD] {
            let refused = ada.post(path, &change(current)).await;
            refused.fails_mentioning(403, "The mail server manages this password");
        }
    }
    let kept = ada.token(&["mail:read"]).await;
    service
        .with_bearer(FOLDERS, &text(&kept["token"]))
        .await
        .succeeds(200);
    ada.send(FOLDERS).await.succeeds(200);
    secrets.extend([token_secret, password, text(&kept["token"])]);
    secrets
}

#[tokio::test]
async fn no_secret_is_logged_at_any_level() {
    let log = Log::capture_at("trace");
    let mut service = Service::with_mail().await;
    let secrets = tour(&service).await;
    service.stop().await;
    assert!(
        !log.lines_with("request completed").is_empty(),
        "the log was captured"
    );
    for secret in secrets {
        let lines = log.lines_with(&secret);
        assert!(lines.is_empty(), "{secret} is in the log: {}", lines[0]);
    }
}

/// Returns all bytes of the service's files, except its key and the mail.
fn files(state: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut folders = vec![state.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // The mail itself needs no credential to be stolen. Sockets cannot be read.
                if path.file_name() != Some("mail".as_ref()) {
                    folders.push(path);
                }
            } else if path.file_name() != Some("latchmail.key".as_ref()) && path.is_file() {
                bytes.extend(std::fs::read(&path).unwrap());
            }
        }
    }
    bytes
}

/// Returns all words that have the form of a password.
fn words(rows: &str) -> BTreeSet<String> {
    let word = |symbol: char| symbol.is_ascii_alphanumeric() || "_-+/=$,".contains(symbol);
    rows.split(|symbol| !word(symbol))
        .filter(|word| (8..=512).contains(&word.len()))
        .map(ToOwned::to_owned)
        .collect()
}

#[tokio::test]
async fn a_stolen_disk_without_the_key_gives_access_to_no_mailbox_and_no_session() {
    let mut running = Service::with_mail().await;
    let service = &running;
    let secrets = tour(service).await;
    let rows = service.dump().await.join("\n");
    let all = rows.clone() + &String::from_utf8_lossy(&files(&service.state));
    assert!(rows.contains("ada@first.test"), "the database was read");
    for secret in &secrets {
        assert!(!all.contains(secret.as_str()), "{secret} lies on the disk");
    }

    let words = words(&rows);
    assert!(words.len() > 20, "{}", words.len());
    let tried = words.iter().map(|word| async move {
        let opened = log_in(service, "ada@first.test", word).await;
        assert!(opened.is_err(), "{word} opens the mailbox");
        for credential in [word.clone(), format!("lmk_{word}")] {
            let response = service.with_bearer(FOLDERS, &credential).await;
            assert_eq!(response.status, 401, "{credential}");
        }
    });
    stream::iter(tried)
        .buffer_unordered(32)
        .collect::<()>()
        .await;

    let (account, sid) = service.any_session().await;
    let forged = |key: &Path| {
        let keys = Keyring::load(key).unwrap();
        let tokens = AccessTokens::new("http://service.test");
        let token = tokens.sign(&keys, &account, &sid, service.clock.now());
        token.unwrap().expose_secret().to_owned()
    };
    // With the service's own key this is a session, so only the key was missing.
    let own = forged(&service.state.join("latchmail.key"));
    service.with_bearer(FOLDERS, &own).await.succeeds(200);
    let another = forged(&service.state.join("another.key"));
    service
        .with_bearer(FOLDERS, &another)
        .await
        .fails(401, "Invalid or expired access token");

    // The database with another key: its sessions are not valid, and people must sign in again.
    std::fs::rename(
        service.state.join("another.key"),
        service.state.join("latchmail.key"),
    )
    .unwrap();
    running.restart().await;
    let service = &running;
    service
        .with_bearer(FOLDERS, &another)
        .await
        .fails_mentioning(401, "Mail session expired");
    let password = if service.stores_passwords() {
        OTHER
    } else {
        PASSWORD
    };
    Person::sign_in(service, "ada@first.test", password)
        .await
        .send(FOLDERS)
        .await
        .succeeds(200);
}
