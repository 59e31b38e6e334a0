//! The mail server stops and starts again while the service runs.

use latchmail_tests::{PASSWORD, Service};
use serde_json::json;

const MAIL_SERVER_DOWN: &str = "Mail server is unavailable, please try again in a moment";
const STARTING: &str = "Mail server is initializing, please try again in a moment";
const FOLDERS: &str = "GET /api/v1/mail/folders";
const INBOX: &str = "GET /api/v1/mail/folders/INBOX/messages";
const MESSAGE: &str = "From: a@outside.test\nTo: x@first.test\nSubject: one\n\nbody\n";

#[tokio::test]
async fn after_a_restart_of_the_mail_server_the_next_request_returns_current_data() {
    let mut service = Service::with_own_mail().await;
    let (ada, bob) = {
        let (ada, bob) = (service.person("ada").await, service.person("bob").await);
        ada.receive(MESSAGE).await;
        assert_eq!(bob.total("INBOX").await, 0);
        ((ada.access, ada.address), (bob.access, bob.address))
    };
    for _ in 0..3 {
        service.stack().restart_imap().await.unwrap();
        for (access, address, total) in [(&ada.0, &ada.1, 1), (&bob.0, &bob.1, 0)] {
            let request = service.request(INBOX).bearer_auth(access);
            let listing = latchmail_tests::Response::of(request).await.succeeds(200);
            assert_eq!(listing["total"], total, "{address}");
        }
    }
}

#[tokio::test]
async fn while_the_mail_server_is_down_every_mail_route_returns_503() {
    let mut service = Service::with_own_mail().await;
    let access = {
        let ada = service.person("ada").await;
        ada.receive(MESSAGE).await;
        ada.messages("INBOX").await;
        ada.access
    };
    service.stack().stop_imap().await.unwrap();
    for line in [FOLDERS, INBOX, "GET /api/v1/mail/messages/1"] {
        let request = service.request(line).bearer_auth(&access);
        let response = latchmail_tests::Response::of(request).await;
        response.fails(503, MAIL_SERVER_DOWN);
        assert!(response.header("retry-after").is_some(), "{line}");
    }
    service.stack().start_imap().await.unwrap();
    for line in [FOLDERS, INBOX, "GET /api/v1/mail/messages/1"] {
        let request = service.request(line).bearer_auth(&access);
        latchmail_tests::Response::of(request).await.succeeds(200);
    }
}

#[tokio::test]
async fn until_the_mail_server_is_first_reached_it_is_reported_as_starting() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    ada.send(FOLDERS).await.fails(503, STARTING);
    let body = json!({ "email": ada.address, "password": PASSWORD });
    let login = service.post("/api/v1/auth/login", &body).await;
    login.fails(503, STARTING);
}

#[tokio::test]
async fn an_ended_session_is_refused_even_with_a_pooled_connection() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.send(INBOX).await.succeeds(200);
    let body = json!({ "refreshToken": ada.refresh });
    ada.post("/api/v1/auth/logout", &body).await.succeeds(200);
    ada.send(INBOX)
        .await
        .fails(401, "Mail session expired, please log in again");
    // A new session can read.
    ada.sign_in_again().await.send(INBOX).await.succeeds(200);
}
