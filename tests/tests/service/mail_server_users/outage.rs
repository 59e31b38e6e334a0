//! An unavailable mail server, and a mail server without authentication sockets.

use std::path::PathBuf;

use latchmail_tests::Person;

use super::*;

const DOWN: &str = "Mail server is unavailable, please try again in a moment";

#[tokio::test]
async fn while_the_mail_server_is_down_nothing_ends_and_nobody_signs_in() {
    let mut service = start().await;
    let access = Person::sign_in(&service, ALICE, SECRET).await.access;
    service.stack().stop_imap().await.unwrap();
    for password in [SECRET, "wrong"] {
        sign_in(&service, ALICE, password).await.fails(503, DOWN);
    }
    service
        .app()
        .auth
        .mail_server_accounts
        .recheck_mail_server_users()
        .await
        .unwrap();
    service.stack().start_imap().await.unwrap();
    service.with_bearer(FOLDERS, &access).await.succeeds(200);
    sign_in(&service, ALICE, SECRET).await.succeeds(200);
}

#[tokio::test]
async fn without_an_authentication_socket_the_service_logs_in_over_imap() {
    let mut service = start().await;
    service
        .restart_with(|config| {
            config.sign_in.mailserver.auth_socket = PathBuf::new();
        })
        .await;
    sign_in(&service, ALICE, SECRET).await.succeeds(200);
    let alice = Person::sign_in(&service, ALICE, SECRET).await;
    alice.send(FOLDERS).await.succeeds(200);
    for (email, password) in [
        (ALICE, "wrong"),
        ("unknown@first.test", "x"),
        (ALICE, "line\r\nbreak"),
        ("alice*master@first.test", latchmail_tests::MASTER_PASSWORD),
    ] {
        sign_in(&service, email, password).await.fails(401, INVALID);
    }
    service.stack().stop_imap().await.unwrap();
    sign_in(&service, ALICE, SECRET).await.fails(503, DOWN);
}
