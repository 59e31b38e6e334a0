//! Tokens at the mail servers: their login mechanisms, connections, and mail that is sent with a
//! token.

use std::time::Duration;

use latchmail_core::caller::{MailCredential, Proof};
use latchmail_mailbox::Access;
use latchmail_mailbox::outbox::{Draft, Error as SendError, Recipient, SendOptions};
use latchmail_tests::{CLIENT_SECRET, Log, Response, Service};
use serde_json::json;

use super::{
    ADA, BOTH, FOLDERS, NO_ISSUER, TOKEN, UNUSABLE, ask, dovecot_log_contains, offers, start,
    wait_until,
};

const INBOX: &str = "GET /api/v1/mail/folders/INBOX/messages";
const NO_MAIL: &str = "Mail server is unavailable, please try again in a moment";
const MESSAGE: &str = "From: a@outside.test\nTo: ada@first.test\nSubject: one\nMessage-ID: <1@outside.test>\n\nbody\n";

async fn assert_logged_in_with(service: &Service, mechanism: &str) {
    let method = format!("method={mechanism},");
    wait_until(&method, async || dovecot_log_contains(service, &[&method])).await;
}

#[tokio::test]
async fn a_token_gives_access_to_its_accounts_mail_and_is_passed_to_the_mail_server() {
    let (_issuer, service) = start(BOTH, "").await;
    let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
    ada.receive(MESSAGE).await;
    let listing = ask(&service, INBOX).await.succeeds(200);
    assert_eq!(listing["messages"][0]["subject"], "one");
    assert_logged_in_with(&service, "OAUTHBEARER").await;
    let uid = &listing["messages"][0]["uid"];
    let flag = json!({ "flags": ["\\Flagged"], "action": "add" });
    let request = service.request(&format!("POST /api/v1/mail/messages/{uid}/flag"));
    let flagged = Response::of(request.bearer_auth(TOKEN).json(&flag)).await;
    flagged.succeeds(200);
    ask(&service, "GET /api/v1/aliases").await.succeeds(200);
    // Other credentials work as before.
    let api_token = ada.token(&["mail:read"]).await;
    let api_token = api_token["token"].as_str().unwrap();
    service.with_bearer(FOLDERS, api_token).await.succeeds(200);
}

#[tokio::test]
async fn xoauth2_is_used_if_the_mail_server_does_not_offer_oauthbearer() {
    let (_issuer, service) = start("xoauth2", "").await;
    ask(&service, FOLDERS).await.succeeds(200);
    assert_logged_in_with(&service, "XOAUTH2").await;
}

#[tokio::test]
async fn no_token_is_sent_to_a_mail_server_that_does_not_accept_tokens() {
    let (_issuer, service) = start("", "").await;
    let response = ask(&service, FOLDERS).await;
    response.fails(503, NO_MAIL);
    assert!(response.header("retry-after").is_some());
}

#[tokio::test]
async fn a_token_that_the_mail_server_refuses_gets_401() {
    let (issuer, service) = start(BOTH, "").await;
    // The service remembers a response for a minute; the mail server asks each time.
    ask(&service, "GET /api/v1/aliases").await.succeeds(200);
    issuer.revoke(TOKEN);
    let refused = "This credential is no longer valid for mail access";
    ask(&service, FOLDERS).await.fails(401, refused);
    assert_eq!(issuer.introspections(TOKEN), 1);
}

#[tokio::test]
async fn a_connection_is_used_only_for_its_own_token() {
    let (issuer, service) = start(BOTH, "").await;
    issuer.add_token("another-of-hers", ADA);
    for token in [TOKEN, "another-of-hers", TOKEN, "another-of-hers"] {
        service.with_bearer(FOLDERS, token).await.succeeds(200);
    }
    let log_ins = || {
        let log = std::fs::read_to_string(service.mail().log.join("dovecot.log")).unwrap();
        log.matches("method=OAUTHBEARER,").count()
    };
    wait_until("two log-ins", async || log_ins() >= 2).await;
    assert_eq!(log_ins(), 2);
}

#[tokio::test]
async fn neither_a_token_nor_the_services_secret_is_ever_logged() {
    let log = Log::capture_at("trace");
    let (issuer, mut service) = start(BOTH, "").await;
    ask(&service, FOLDERS).await.succeeds(200);
    service.clock.advance(Duration::from_mins(1));
    issuer.override_responses(Some((500, "")));
    ask(&service, FOLDERS).await.fails(503, NO_ISSUER);
    issuer.override_responses(None);
    issuer.revoke(TOKEN);
    ask(&service, FOLDERS).await.fails(401, UNUSABLE);
    sends(&service, TOKEN).await.unwrap_err();
    service.stop().await;
    assert!(
        !log.lines_with("request completed").is_empty(),
        "the log was captured"
    );
    assert!(
        !log.lines_with("the token is not active").is_empty(),
        "the log has the reason"
    );
    let encoded = ["b3BhcXVlLXQwa2Vu", "s3cret%2B"];
    for secret in [TOKEN, "opaque-t0ken", CLIENT_SECRET]
        .into_iter()
        .chain(encoded)
    {
        let lines = log.lines_with(secret);
        assert!(lines.is_empty(), "{secret} is in the log: {}", lines[0]);
    }
}

/// Submits a message of Ada's with a token.
async fn sends(service: &Service, token: &str) -> Result<(), SendError> {
    let app = service.app();
    let account = app
        .directory
        .accounts
        .by_address(ADA)
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
        member: None,
        grant: None,
        is_person: false,
    };
    let draft = Draft {
        from: app.outbox.check_sender(access, ADA).await?,
        from_name: String::new(),
        to: vec![Recipient::new(String::new(), ADA)?],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: "by a token".into(),
        text: Some("text".into()),
        html: None,
        in_reply_to: None,
        references: Vec::new(),
        headers: Vec::new(),
        files: Vec::new(),
        original: None,
    };
    app.outbox
        .send(draft, SendOptions::default())
        .await
        .map(drop)
}

#[tokio::test]
async fn a_message_is_sent_with_the_token_if_the_submission_service_accepts_tokens() {
    for (mechanisms, better) in [(BOTH, "OAUTHBEARER"), ("xoauth2", "XOAUTH2")] {
        let (issuer, service) = start(mechanisms, "").await;
        wait_until(better, async || offers(&service, better).await).await;
        // One token that fits into the AUTH command, and one that is sent after the server asks.
        let long = format!("{TOKEN}{}", "x".repeat(1000));
        issuer.add_token(&long, ADA);
        for token in [TOKEN, &long] {
            sends(&service, token).await.unwrap();
        }
        let ada = latchmail_tests::Person::sign_in(&service, ADA, latchmail_tests::PASSWORD).await;
        ada.wait_for_message("by a token").await;
        let refused = sends(&service, "unknown").await.unwrap_err();
        assert!(matches!(refused, SendError::CredentialRefused), "{refused}");
    }
    let (_issuer, service) = start("", "").await;
    let away = sends(&service, TOKEN).await.unwrap_err();
    assert!(
        matches!(&away, SendError::Unavailable(why) if why.contains("XOAUTH2")),
        "{away}"
    );
}
