//! A rotation on two hosts under load: no user is signed out, and no request fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use latchmail_tests::dkim::{Records, add_domain, verify};
use latchmail_tests::{
    AnotherHost, Client, PASSWORD, Person, Response, Service, add_alias, imap, stored_messages,
    wait_until,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use totp_rs::{Builder, Secret};

use super::{LONG_AGO, current, in_state, kids, listed, wait_until_resealed};

const FOLDERS: &str = "GET /api/v1/mail/folders";
const REFRESH: &str = "/api/v1/auth/refresh";

/// The interval between two requests with the same credential.
const INTERVAL: Duration = Duration::from_millis(100);

/// Sends a request with a credential to a host, in turns to each host.
async fn on_both(service: &Service, other: &AnotherHost, line: &str, credential: &str) {
    service.with_bearer(line, credential).await.succeeds(200);
    other.with_bearer(line, credential).await.succeeds(200);
}

/// Sends requests with these credentials to both URLs until `stop` is set. Returns the number of
/// successful requests, and the failed responses.
async fn load(
    bases: [String; 2],
    requests: Vec<(String, String)>,
    stop: Arc<AtomicBool>,
    succeeded: Arc<AtomicUsize>,
) -> Vec<(u16, Value)> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for (path, credential) in &requests {
            for base in &bases {
                let request = client.get(format!("{base}{path}")).bearer_auth(credential);
                let response = Response::of(request).await;
                if response.status == 200 {
                    succeeded.fetch_add(1, Ordering::Relaxed);
                } else {
                    failed.push((response.status, response.json));
                }
            }
        }
        sleep(INTERVAL).await;
    }
    failed
}

/// Enables the second factor of a person, and returns its secret.
async fn second_factor(person: &Person<'_>) -> String {
    // The command uses the machine's time, so codes must be newer.
    person.service.clock.advance(Duration::from_mins(2));
    let verb = format!("account two-factor {} on", person.address);
    let shown = person.service.operator(&verb, "").await.succeeds();
    let mut lines = shown.lines();
    let secret = lines.find_map(|line| line.strip_prefix("secret  "));
    secret.unwrap().to_owned()
}

fn code(service: &Service, secret: &str) -> String {
    let secret = Secret::try_from_base32(secret).unwrap();
    let totp = Builder::new().with_secret(secret).build().unwrap();
    let now = service.clock.now().seconds();
    totp.generate(now.try_into().unwrap()).to_string()
}

/// Signs in with a second factor.
async fn sign_in_with_code(service: &Service, address: &str, secret: &str) {
    // Each code is valid once.
    service.clock.advance(Duration::from_secs(30));
    let body = json!({ "email": address, "password": PASSWORD, "code": code(service, secret) });
    let response = service.post("/api/v1/auth/login", &body).await;
    response.succeeds(200);
}

/// Rotates the key. The other host has its own key file, so the first attempt waits for the other
/// host and names it. Returns the new key.
async fn rotate(service: &Service, other: &AnotherHost, first: &str) -> String {
    let file = service.state.join("latchmail.key");
    let blocked = service.operator("key rotate", "").await;
    assert_eq!(blocked.status, 1, "{blocked:?}");
    let name = service.app().host_name.clone();
    let sentence = blocked.stderr.lines().next().unwrap();
    assert!(
        sentence.contains("do not have the key") && sentence.contains(&name),
        "{blocked:?}"
    );
    assert_eq!(current(service).await, first);
    let pending = in_state(service, "pending").await.remove(0);
    assert_eq!(kids(&file), [first, pending.as_str()]);
    assert_eq!(kids(&other.key_file()), [first]);
    std::fs::copy(&file, other.key_file()).unwrap();
    let rotated = service.operator("key rotate", "").await.succeeds();
    assert!(
        rotated.contains(&format!("{pending} is the current key.")),
        "{rotated}"
    );
    assert_eq!(current(service).await, pending);
    assert_eq!(kids(&file), [pending.as_str(), first]);
    pending
}

/// Sends a message from Ada's domain, and asserts that it has a valid signature.
async fn assert_signed(ada: &Person<'_>, records: &Records) {
    let mail =
        json!({ "from": "me@ada.example", "to": "ada@first.test", "subject": "s", "text": "t" });
    let sent = ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
    let mut client = imap(ada).await;
    let mut signed = None;
    wait_until("the sent message", async || {
        let messages = stored_messages(&mut client, "Sent").await;
        let id = sent["messageId"].as_str();
        signed = messages
            .into_iter()
            .find(|message| message.header("message-id").as_deref() == id);
        signed.is_some()
    })
    .await;
    assert_eq!(verify(&signed.unwrap().bytes, records), [true]);
}

/// Removes the earlier key from the key files of both hosts.
async fn remove_earlier(service: &Service, other: &AnotherHost, first: &str, second: &str) {
    let file = service.state.join("latchmail.key");
    let name = service.app().host_name.clone();
    let refused = service.operator(&format!("key remove {first}"), "").await;
    refused.fails_mentioning("can be in use until");
    service.execute(LONG_AGO).await;
    let current_is_kept = service.operator(&format!("key remove {second}"), "").await;
    current_is_kept.fails_mentioning("is the current key");
    let removed = service.operator(&format!("key remove {first}"), "").await;
    let removed = removed.succeeds();
    assert!(
        removed.contains(&name),
        "the other host has the key: {removed}"
    );
    std::fs::copy(&file, other.key_file()).unwrap();
    wait_until("no host has the earlier key", async || {
        listed(service).await.len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_signs_no_one_out_on_any_host_and_fails_no_request() {
    let service = Service::with_mail().await;
    let file = service.state.join("latchmail.key");
    let (ada, bob, cyd) = (
        service.person("ada").await,
        service.person("bob").await,
        service.person("cyd").await,
    );
    let idle = ada.sign_in_again().await;
    let api_token = ada.token(&["mail:read"]).await["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let oauth = Client::register(&service).await.tokens(&ada).await;
    let secret = second_factor(&cyd).await;
    add_alias(&ada, "me@ada.example", true).await;
    let records = add_domain(&ada, "ada.example").await;
    let teams = ada.send("GET /api/v1/teams").await.succeeds(200);
    let team = teams["teams"][0]["id"].as_str().unwrap().to_owned();
    let invitation = json!({ "username": "bob", "password": PASSWORD, "resource_kind": "mailbox", "rights": ["mail:read"] });
    let invitations = format!("/api/v1/teams/{team}/invitations");
    let invited = ada.post(&invitations, &invitation).await;
    invited.succeeds(201);
    let shared = format!("{FOLDERS}?mailbox={team}");
    let path = |line: &str| line.strip_prefix("GET ").unwrap().to_owned();

    let other = service.another_host().await;
    let first = current(&service).await;
    let stop = Arc::new(AtomicBool::new(false));
    let succeeded = Arc::new(AtomicUsize::new(0));
    let requests = vec![
        (path(FOLDERS), ada.access.clone()),
        (path(FOLDERS), api_token.clone()),
        (path(&shared), bob.access.clone()),
    ];
    let bases = [service.base.clone(), other.base.clone()];
    let loaded = tokio::spawn(load(
        bases,
        requests,
        Arc::clone(&stop),
        Arc::clone(&succeeded),
    ));

    let second = rotate(&service, &other, &first).await;
    wait_until_resealed(&service, &file, &first).await;
    let before = succeeded.load(Ordering::Relaxed);
    wait_until("further requests", async || {
        succeeded.load(Ordering::Relaxed) > before + 20
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    assert_eq!(loaded.await.unwrap(), []);

    // All credentials from before the rotation are valid on both hosts.
    for credential in [&ada.access, &idle.access, &api_token, &oauth.access] {
        on_both(&service, &other, FOLDERS, credential).await;
    }
    on_both(&service, &other, &shared, &bob.access).await;
    sign_in_with_code(&service, &cyd.address, &secret).await;
    assert_signed(&ada, &records).await;

    remove_earlier(&service, &other, &first, &second).await;
    for host in [&service.base, &other.base] {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.get(format!("{host}/api/v1/mail/folders"));
        let response = Response::of(request.bearer_auth(&ada.access)).await;
        response.fails(401, "Invalid or expired access token");
    }
    for person in [&ada, &idle] {
        let body = json!({ "refreshToken": person.refresh });
        let refreshed = service.post(REFRESH, &body).await.succeeds(200);
        let access = refreshed["accessToken"].as_str().unwrap();
        on_both(&service, &other, FOLDERS, access).await;
    }
    for credential in [&api_token, &oauth.access] {
        on_both(&service, &other, FOLDERS, credential).await;
    }
    let bob = bob.sign_in_again().await;
    on_both(&service, &other, &shared, &bob.access).await;
    sign_in_with_code(&service, &cyd.address, &secret).await;
    other.stop().await;
}
