//! Specification, section 5, rule 3: access tokens of another authorization server: which requests it gets, how long its responses are valid, and
//! that the mail server gets the token itself.
//!
//! On SQLite in every run: Dovecot 2.3.19 crashes if its PostgreSQL driver and its passdb for tokens are in one process.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail::caller::{MailCredential, Proof};
use latchmail::mail::{Access, Address};
use latchmail::outbox::{Draft, Error as SendError};
use latchmail_tests::{
    Answer, CLIENT_SECRET, EVENTUALLY, Issuer, Log, Raw, Service, Setup, fixtures, refusal,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

const FOLDERS: &str = "GET /api/v1/mail/folders";
const INBOX: &str = "GET /api/v1/mail/folders/INBOX/messages";
const AGENT: &str = "GET /older/agent";
const UNUSABLE: &str = "Invalid or expired access token";
const NO_ISSUER: &str = "The authorization server cannot be reached, please try again in a moment";
const NO_MAIL: &str = "Mail server is initializing, please try again in a moment";
const BOTH: &str = "oauthbearer xoauth2";
const TOKEN: &str = "opaque-t0ken~+/=";
const ADA: &str = "ada@first.test";
const MESSAGE: &str = "From: a@outside.test\nTo: ada@first.test\nSubject: one\nMessage-ID: <1@outside.test>\n\nbody\n";

/// A service that uses an issuer, whose tokens its Dovecot accepts with these mechanisms, and Ada, who has a valid token.
async fn world(mechanisms: &str, settings: &str) -> (Issuer, Service) {
    let issuer = Issuer::start().await;
    let settings = format!("{}\n{settings}", issuer.settings());
    let mut service = Setup::default()
        .with_own_mail()
        .on_sqlite()
        .with(&settings)
        .start()
        .await;
    issuer.believed_by(&mut service, mechanisms).await;
    service.person("ada").await;
    issuer.gives(TOKEN, ADA);
    (issuer, service)
}

async fn ask(service: &Service, line: &str) -> Answer {
    service.with_bearer(line, TOKEN).await
}

/// Waits until a condition holds.
async fn comes_to_be(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let came = timeout(EVENTUALLY, waiting).await;
    assert!(came.is_ok(), "{what}");
}

/// Whether Dovecot's log has a line with all of these texts.
fn dovecot_says(service: &Service, mentions: &[&str]) -> bool {
    let log = std::fs::read_to_string(service.mail().log.join("dovecot.log")).unwrap();
    log.lines()
        .any(|line| mentions.iter().all(|mention| line.contains(mention)))
}

async fn let_in_by(service: &Service, mechanism: &str) {
    let method = format!("method={mechanism},");
    comes_to_be(&method, async || dovecot_says(service, &[&method])).await;
}

/// Whether the submission service offers a mechanism.
async fn offers(service: &Service, mechanism: &str) -> bool {
    let stream = TcpStream::connect(service.mail().submission).await.unwrap();
    let mut lines = BufReader::new(stream);
    lines.write_all(b"EHLO test\r\n").await.unwrap();
    let mut offered = false;
    let mut line = String::new();
    while lines.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        offered |= line.contains("AUTH") && line.contains(mechanism);
        if line.starts_with("250 ") {
            break;
        }
        line.clear();
    }
    offered
}

#[tokio::test]
async fn a_token_reads_and_changes_the_mail_of_its_account_and_the_mail_server_sees_the_token() {
    let (_issuer, service) = world(BOTH, "").await;
    let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
    ada.receives(MESSAGE).await;
    let listing = ask(&service, INBOX).await.succeeds(200);
    assert_eq!(listing["messages"][0]["subject"], "one");
    let_in_by(&service, "OAUTHBEARER").await;
    let uid = &listing["messages"][0]["uid"];
    let flag = json!({ "flags": ["\\Flagged"], "action": "add" });
    let request = service.request(&format!("POST /api/v1/mail/messages/{uid}/flag"));
    let flagged = Answer::of(request.bearer_auth(TOKEN).json(&flag)).await;
    flagged.succeeds(200);
    ask(&service, "GET /api/v1/aliases").await.succeeds(200);
    // Other credentials work as before.
    let api_token = ada.token(&["mail:read"]).await;
    let api_token = api_token["token"].as_str().unwrap();
    service.with_bearer(FOLDERS, api_token).await.succeeds(200);
}

#[tokio::test]
async fn a_token_opens_no_more_than_oauth_tokens_open() {
    let (_issuer, service) = world(BOTH, "").await;
    for line in [
        "GET /api/v1/tokens",
        "GET /api/v1/domains",
        "GET /api/v1/profile/sessions",
    ] {
        ask(&service, line)
            .await
            .fails_about(403, "signed-in session");
    }
    ask(&service, "GET /api/v1/profile")
        .await
        .fails_about(403, "profile:read");
    let line = format!("{FOLDERS}?mailbox=anybodys");
    ask(&service, &line)
        .await
        .fails_about(403, "signed-in session");
    let post = async |path: &str, body: Value| {
        let request = service.request(&format!("POST {path}"));
        Answer::of(request.bearer_auth(TOKEN).json(&body)).await
    };
    let alias = json!({ "domain": "first.test" });
    post("/api/v1/aliases", alias)
        .await
        .fails_about(403, "aliases:write");
    let mail = json!({ "from": ADA, "to": ADA, "subject": "x", "text": "y" });
    post("/api/v1/mail/send", mail)
        .await
        .fails_about(403, "mail:send");
}

#[tokio::test]
async fn where_the_mail_server_offers_the_older_mechanism_alone_that_is_used() {
    let (_issuer, service) = world("xoauth2", "").await;
    ask(&service, FOLDERS).await.succeeds(200);
    let_in_by(&service, "XOAUTH2").await;
}

#[tokio::test]
async fn where_the_mail_server_takes_no_tokens_it_is_shown_none() {
    let (_issuer, service) = world("", "").await;
    let answer = ask(&service, FOLDERS).await;
    answer.fails(503, NO_MAIL);
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_token_that_the_mail_server_refuses_is_told_so() {
    let (issuer, service) = world(BOTH, "").await;
    // The service remembers a response for a minute; the mail server asks each time.
    ask(&service, "GET /api/v1/aliases").await.succeeds(200);
    issuer.withdraws(TOKEN);
    let refused = "This credential is no longer valid for mail access";
    ask(&service, FOLDERS).await.fails(401, refused);
    assert_eq!(issuer.questions(TOKEN), 1);
}

#[tokio::test]
async fn a_withdrawn_token_stops_within_a_minute_and_is_asked_about_once_in_it() {
    let (issuer, service) = world(BOTH, "").await;
    for _ in 0..3 {
        ask(&service, FOLDERS).await.succeeds(200);
    }
    assert_eq!(issuer.questions(TOKEN), 1);
    issuer.withdraws(TOKEN);
    service.clock.advance(Duration::from_secs(59));
    ask(&service, FOLDERS).await.succeeds(200);
    assert_eq!(issuer.questions(TOKEN), 1);
    assert!(!dovecot_says(
        &service,
        &["imap(ada@first.test)<", "closed"]
    ));
    service.clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    }
    assert_eq!(
        issuer.questions(TOKEN),
        2,
        "a negative response is cached too"
    );
    // The service closes its connection before the idle timeout.
    let closed = ["imap(ada@first.test)<", "Connection closed"];
    comes_to_be("its connection closes", async || {
        dovecot_says(&service, &closed)
    })
    .await;
    issuer.gives(TOKEN, ADA);
    service.clock.advance(Duration::from_mins(1));
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_token_ends_at_its_exp() {
    let (issuer, service) = world(BOTH, "").await;
    let end = service.clock.now().seconds() + 30;
    issuer.says_otherwise(TOKEN, "exp", json!(end));
    ask(&service, FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_secs(30));
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    assert_eq!(issuer.questions(TOKEN), 1);
}

#[tokio::test]
async fn concurrent_requests_with_one_token_cause_one_introspection() {
    let (issuer, service) = world(BOTH, "").await;
    issuer.hold();
    let requests = join_all((0..8).map(|_| ask(&service, "GET /api/v1/aliases")));
    let (answers, ()) = tokio::join!(requests, async {
        issuer.is_asked(TOKEN).await;
        issuer.release();
    });
    for answer in answers {
        answer.succeeds(200);
    }
    assert_eq!(issuer.questions(TOKEN), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_takes_nobody_elses_answer_away() {
    let (issuer, service) = world(BOTH, "").await;
    issuer.hold();
    let first = async {
        let request = ask(&service, "GET /api/v1/aliases");
        tokio::select! {
            _ = request => panic!("it is held"),
            () = issuer.is_asked(TOKEN) => {}
        }
    };
    first.await;
    let second = ask(&service, "GET /api/v1/aliases");
    let (answer, ()) = tokio::join!(second, async { issuer.release() });
    answer.succeeds(200);
    assert_eq!(issuer.questions(TOKEN), 1);
}

#[tokio::test]
async fn a_token_is_good_for_this_service_its_issuer_and_an_account_of_it_alone() {
    let (issuer, service) = world(BOTH, "").await;
    let mut n = 0;
    for (member, value) in [
        ("active", json!(false)),
        ("aud", Value::Null),
        ("aud", json!("https://another.example/mcp")),
        (
            "aud",
            json!([
                "http://service.test.evil.example",
                "http://service.test/mcpx"
            ]),
        ),
        ("iss", json!("https://another.example")),
        ("token_type", json!("DPoP")),
        (
            "cnf",
            json!({ "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" }),
        ),
        ("exp", json!(1)),
        ("username", json!("nobody@first.test")),
        ("username", json!("ada")),
        ("username", Value::Null),
    ] {
        n += 1;
        let token = format!("{TOKEN}{n}");
        issuer.gives(&token, ADA);
        issuer.says_otherwise(&token, member, value.clone());
        let answer = service.with_bearer(FOLDERS, &token).await;
        answer.fails(401, UNUSABLE);
        assert_eq!(
            answer.header("www-authenticate"),
            Some("Bearer"),
            "{member} {value}"
        );
    }
    issuer.says_otherwise(TOKEN, "username", json!("Ada@First.Test"));
    ask(&service, "GET /api/v1/aliases").await.succeeds(200);
}

#[tokio::test]
async fn a_connection_of_one_token_serves_no_other() {
    let (issuer, service) = world(BOTH, "").await;
    issuer.gives("another-of-hers", ADA);
    for token in [TOKEN, "another-of-hers", TOKEN, "another-of-hers"] {
        service.with_bearer(FOLDERS, token).await.succeeds(200);
    }
    let log_ins = || {
        let log = std::fs::read_to_string(service.mail().log.join("dovecot.log")).unwrap();
        log.matches("method=OAUTHBEARER,").count()
    };
    comes_to_be("two log-ins", async || log_ins() >= 2).await;
    assert_eq!(log_ins(), 2);
}

#[tokio::test]
async fn a_token_that_was_good_has_a_budget_of_its_own_and_made_up_ones_have_their_clients() {
    let (issuer, service) = world(BOTH, "limits.unproven = 2").await;
    for _ in 0..5 {
        ask(&service, FOLDERS).await.succeeds(200);
    }
    service
        .with_bearer(FOLDERS, "made-up")
        .await
        .fails(401, UNUSABLE);
    let refused = service.with_bearer(FOLDERS, "made-up-too").await;
    refused.fails_about(429, "Too many requests");
    assert_eq!(issuer.questions("made-up-too"), 0);
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_route_for_agents_alone_takes_it_and_sends_who_has_none_to_discovery() {
    let older = fixtures().join("fixture_older.wasm");
    let settings = format!(
        "modules.older.source = '{}'\nmodules.older.grants = ['caller', 'mailbox']\nmodules.older.paths = ['/older/']",
        older.display()
    );
    let (issuer, service) = world(BOTH, &settings).await;
    assert_eq!(ask(&service, AGENT).await.status, 200);
    let refused = service.with_bearer(AGENT, "made-up").await;
    refused.fails(401, "Missing or invalid Authorization header");
    assert_eq!(
        refused.header("www-authenticate"),
        Some(
            "Bearer resource_metadata=\"http://service.test/.well-known/oauth-protected-resource\", error=\"invalid_token\""
        )
    );
    issuer.answers(Some((500, "")));
    service
        .with_bearer(AGENT, "another")
        .await
        .fails(503, NO_ISSUER);
}

/// Calls a tool of the agent endpoint.
async fn tool(service: &Service, token: &str, name: &str, arguments: Value) -> Answer {
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": name, "arguments": arguments },
    });
    let request = service.request("POST /mcp").bearer_auth(token).json(&call);
    let request = request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18");
    Answer::of(request).await
}

#[tokio::test]
async fn agents_are_sent_to_the_issuer_and_its_tokens_open_the_tools() {
    let (issuer, service) = world(BOTH, "").await;
    let metadata = service
        .ask("GET /.well-known/oauth-protected-resource")
        .await;
    let metadata = metadata.succeeds(200);
    let there = format!("http://{}", issuer.address);
    assert_eq!(metadata["authorization_servers"], json!([there]));
    for line in [
        "GET /.well-known/oauth-authorization-server",
        "GET /login",
        "GET /auth/device",
    ] {
        assert_eq!(service.ask(line).await.status, 404, "{line}");
    }
    let folders = tool(&service, TOKEN, "list_folders", json!({}))
        .await
        .succeeds(200);
    assert_ne!(folders["result"]["isError"], json!(true), "{folders}");
    let alias = json!({ "domain": "first.test", "name": "shop" });
    let made = tool(&service, TOKEN, "create_alias", alias)
        .await
        .succeeds(200);
    assert_ne!(made["result"]["isError"], json!(true), "{made}");
    let aliases = ask(&service, "GET /api/v1/aliases").await.succeeds(200);
    assert!(aliases.to_string().contains("shop@first.test"), "{aliases}");
}

#[tokio::test]
async fn a_token_for_the_api_alone_opens_no_tools() {
    let (issuer, service) = world(BOTH, "").await;
    issuer.says_otherwise(TOKEN, "aud", json!("http://service.test/api/v1"));
    ask(&service, FOLDERS).await.succeeds(200);
    let refused = tool(&service, TOKEN, "list_folders", json!({})).await;
    refused.fails(401, "Missing or invalid Authorization header");
}

#[tokio::test]
async fn where_agents_may_send_a_message_leaves_by_the_token() {
    let (_issuer, service) = world(BOTH, "mcp.send_tool = true").await;
    comes_to_be("OAUTHBEARER", async || {
        offers(&service, "OAUTHBEARER").await
    })
    .await;
    let mail = json!({ "from": ADA, "to": ADA, "subject": "by an agent", "text": "y" });
    let request = service.request("POST /api/v1/mail/send").bearer_auth(TOKEN);
    let sent = Answer::of(request.json(&mail)).await.succeeds(200);
    assert_eq!(sent["savedTo"], "Sent");
    let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
    ada.arrives("by an agent").await;
}

#[tokio::test]
async fn an_account_that_is_disabled_here_is_out_at_once_whatever_the_issuer_says() {
    let (issuer, service) = world(BOTH, "").await;
    ask(&service, FOLDERS).await.succeeds(200);
    service.execute("UPDATE accounts SET active = FALSE").await;
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    assert_eq!(issuer.questions(TOKEN), 1);
}

#[tokio::test]
async fn a_scope_that_is_asked_for_has_to_be_there() {
    let (issuer, service) = world(BOTH, "oauth.introspection.scope = 'mail'").await;
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    issuer.says_otherwise(TOKEN, "scope", json!("openid mail"));
    service.clock.advance(Duration::from_mins(1));
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_failed_introspection_is_503_and_not_cached() {
    let (issuer, service) = world(BOTH, "oauth.introspection.timeout = 0.5").await;
    for instead in [
        (500, ""),
        (401, ""),
        (302, ""),
        (200, ""),
        (200, "<html>"),
        (200, "{\"active\": \"true\"}"),
        (200, "{\"active\": true, \"exp\": \"soon\"}"),
    ] {
        issuer.answers(Some(instead));
        let answer = ask(&service, FOLDERS).await;
        answer.fails(503, NO_ISSUER);
        assert_eq!(answer.header("retry-after"), Some("2"));
    }
    issuer.answers(None);
    issuer.hold();
    ask(&service, FOLDERS).await.fails(503, NO_ISSUER);
    issuer.release();
    ask(&service, FOLDERS).await.succeeds(200);
    // Its response stays valid for a minute, even if the server fails.
    issuer.answers(Some((500, "")));
    ask(&service, FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn an_issuer_is_asked_again_after_an_outage() {
    let (issuer, service) = world(BOTH, "").await;
    let address = issuer.address;
    drop(issuer);
    // The listener is closed when its task has ended.
    comes_to_be("the listener is closed", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    ask(&service, FOLDERS).await.fails(503, NO_ISSUER);
    let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
    ada.ask(FOLDERS).await.succeeds(200);
}

#[tokio::test]
async fn a_token_cannot_inject_protocol() {
    let (issuer, service) = world(BOTH, "").await;
    for hostile in [
        "t\x01auth=Bearer opaque",
        "t\x01\x01",
        "t\0",
        "t\x7f",
        "t u",
        "t\tu",
        "t\u{f6}",
        "t\u{202e}",
    ] {
        let mut raw = Raw::to(&service).await;
        let request = format!(
            "GET /api/v1/mail/folders HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {hostile}\r\n\r\n"
        );
        raw.say(request).await;
        let answer = raw.answer().await.unwrap();
        assert!(
            [400, 401].contains(&answer.status),
            "{hostile:?}: {}",
            answer.status
        );
    }
    // Visible ASCII with special characters of forms and of IMAP.
    for hostile in [
        "a&active=true&token=b",
        "%00",
        "a%26b",
        "\"}{\"",
        "a,b=c",
        "{3+}",
    ] {
        service
            .with_bearer(FOLDERS, hostile)
            .await
            .fails(401, UNUSABLE);
        assert_eq!(issuer.questions(hostile), 1, "{hostile}");
    }
    let long = "x".repeat(4097);
    service
        .with_bearer(FOLDERS, &long)
        .await
        .fails(401, UNUSABLE);
    assert_eq!(issuer.questions(&long), 0);
}

#[tokio::test]
async fn neither_a_token_nor_the_services_secret_is_ever_logged() {
    let log = Log::keep_at("trace");
    let (issuer, mut service) = world(BOTH, "").await;
    ask(&service, FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_mins(1));
    issuer.answers(Some((500, "")));
    ask(&service, FOLDERS).await.fails(503, NO_ISSUER);
    issuer.answers(None);
    issuer.withdraws(TOKEN);
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    sends(&service, TOKEN).await.unwrap_err();
    service.stop().await;
    assert!(
        !log.about("request completed").is_empty(),
        "the log was kept"
    );
    assert!(
        !log.about("the token is not active").is_empty(),
        "why is in the log"
    );
    let encoded = ["b3BhcXVlLXQwa2Vu", "s3cret%2B"];
    for secret in [TOKEN, "opaque-t0ken", CLIENT_SECRET]
        .into_iter()
        .chain(encoded)
    {
        let told = log.about(secret);
        assert!(told.is_empty(), "{secret} is in the log: {}", told[0]);
    }
}

/// Submits a message of Ada's with a token.
async fn sends(service: &Service, token: &str) -> Result<(), SendError> {
    let app = service.app();
    let account = app
        .directory
        .account_by_address(ADA)
        .await
        .unwrap()
        .unwrap();
    let access = Access {
        account: account.id,
        credential: MailCredential {
            id: format!("of {token}"),
            username: ADA.into(),
            proof: Proof::AccessToken {
                token: token.into(),
                until: None,
            },
        },
        guest: None,
    };
    let draft = Draft {
        from: ADA.into(),
        to: vec![Address {
            name: String::new(),
            address: ADA.into(),
        }],
        subject: "by a token".into(),
        text: Some("text".into()),
        ..Draft::default()
    };
    app.outbox.send(&access, draft, None, None).await.map(drop)
}

#[tokio::test]
async fn a_message_leaves_by_the_token_where_the_submission_service_takes_tokens() {
    for (mechanisms, better) in [(BOTH, "OAUTHBEARER"), ("xoauth2", "XOAUTH2")] {
        let (issuer, service) = world(mechanisms, "").await;
        comes_to_be(better, async || offers(&service, better).await).await;
        // One token that fits into the AUTH command, and one that is sent after the server asks.
        let long = format!("{TOKEN}{}", "x".repeat(1000));
        issuer.gives(&long, ADA);
        for token in [TOKEN, &long] {
            sends(&service, token).await.unwrap();
        }
        let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
        ada.arrives("by a token").await;
        let refused = sends(&service, "unknown").await.unwrap_err();
        assert!(matches!(refused, SendError::CredentialRefused), "{refused}");
    }
    let (_issuer, service) = world("", "").await;
    let away = sends(&service, TOKEN).await.unwrap_err();
    assert!(
        matches!(&away, SendError::Unavailable(why) if why.contains("XOAUTH2")),
        "{away}"
    );
}

#[tokio::test]
async fn an_invalid_configuration_is_refused_at_the_start() {
    let issuer = Issuer::start().await;
    let whole = issuer.settings();
    let without = |key: &str| -> String {
        let kept = whole.lines().filter(|line| !line.starts_with(key));
        kept.collect::<Vec<_>>().join("\n")
    };
    let with = |key: &str, value: &str| format!("{}\n{key} = {value}", without(key));
    for (settings, mention) in [
        (
            "auth_url = 'https://id.example'".to_owned(),
            "oauth.introspection",
        ),
        (without("auth_url"), "auth_url"),
        (with("auth_url", "'http://id.example'"), "https origin"),
        (
            with("oauth.introspection.url", "'http://10.0.0.1/i'"),
            "introspection.url",
        ),
        (
            with("oauth.introspection.url", "'ftp://id.example/i'"),
            "introspection.url",
        ),
        (without("oauth.introspection.url"), "introspection.url"),
        (without("oauth.introspection.client_id"), "client_id"),
        (
            without("oauth.introspection.client_secret_file"),
            "client_secret_file",
        ),
        (
            with("oauth.introspection.client_secret_file", "'/dev/null'"),
            "client_secret_file",
        ),
        (with("oauth.introspection.timeout", "31"), "timeout"),
        (with("oauth.listen", "'127.0.0.1:0'"), "oauth.listen"),
        (
            with("oauth.introspection.username_claim", "''"),
            "username_claim",
        ),
    ] {
        let refused = refusal(&settings).await;
        assert!(refused.contains(mention), "{settings}\n{refused}");
        assert!(!refused.contains(CLIENT_SECRET));
    }
}
