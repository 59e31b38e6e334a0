//! Tests of log-in with access tokens, with the replies that servers can send. Tests with a real
//! server are in the service tests.

use std::time::Duration;

use latchmail_core::caller::Proof;
use tokio::time::Instant;

use super::access;
use super::scripted_server::{Step, reply_to, with_scripted_server};
use crate::Error;

/// `n,a=ada@example.org,^Aauth=Bearer t0ken^A^A`
const OAUTHBEARER_RESPONSE: &str = "bixhPWFkYUBleGFtcGxlLm9yZywBYXV0aD1CZWFyZXIgdDBrZW4BAQ==";
/// `user=ada@example.org^Aauth=Bearer t0ken^A^A`
const XOAUTH2_RESPONSE: &str = "dXNlcj1hZGFAZXhhbXBsZS5vcmcBYXV0aD1CZWFyZXIgdDBrZW4BAQ==";

/// `{"status":"invalid_token"}`: the server's reason, sent before it rejects the token.
const REASON: &str = "+ eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIn0=\r\n";
const LIST: Step = reply_to("LIST", "{tag} OK listed\r\n");
const LOGGED_IN: &str = "{tag} OK [CAPABILITY IMAP4rev1] in\r\n";

/// Lists the folders with a token that expires at `expires_at`. Returns the result and the number
/// of pooled connections.
async fn list_folders(
    greeting: &'static str,
    steps: Vec<Step>,
    expires_at: Option<Instant>,
) -> (Result<(), Error>, usize) {
    with_scripted_server(greeting, steps, async move |mail, _| {
        let mut access = access("ada", "its-hash");
        access.credential.proof = Proof::AccessToken {
            token: "t0ken".into(),
            until: expires_at,
        };
        let folders = mail.listing.folders(&access).await.map(drop);
        (folders, mail.connections.count_of("ada"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_with_the_best_offered_mechanism() {
    let cases: [(&str, Vec<Step>); 4] = [
        (
            "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=XOAUTH2 AUTH=OAUTHBEARER AUTH=PLAIN] hello\r\n",
            vec![reply_to(OAUTHBEARER_RESPONSE, LOGGED_IN)],
        ),
        (
            "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN AUTH=XOAUTH2] hello\r\n",
            vec![reply_to(XOAUTH2_RESPONSE, LOGGED_IN)],
        ),
        // Without SASL-IR, the server requests the response first.
        (
            "* OK [CAPABILITY IMAP4rev1 AUTH=OAUTHBEARER] hello\r\n",
            vec![
                reply_to("AUTHENTICATE OAUTHBEARER\r\n", "+ \r\n"),
                reply_to(OAUTHBEARER_RESPONSE, "L1 OK [CAPABILITY IMAP4rev1] in\r\n"),
            ],
        ),
        // The server lists its capabilities only on request.
        (
            "* OK hello\r\n",
            vec![
                reply_to(
                    "CAPABILITY",
                    "* CAPABILITY IMAP4rev1 AUTH=XOAUTH2\r\n{tag} OK done\r\n",
                ),
                reply_to("AUTHENTICATE XOAUTH2\r\n", "+ \r\n"),
                reply_to(XOAUTH2_RESPONSE, "L2 OK [CAPABILITY IMAP4rev1] in\r\n"),
            ],
        ),
    ];
    for (greeting, mut steps) in cases {
        steps.push(LIST);
        let (outcome, pooled) = list_folders(greeting, steps, None).await;
        outcome.unwrap_or_else(|error| panic!("{greeting}: {error}"));
        assert_eq!(pooled, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_an_error_with_and_without_a_reason_of_the_server() {
    const OAUTHBEARER: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=OAUTHBEARER] hello\r\n";
    const XOAUTH2: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=XOAUTH2] hello\r\n";
    const REJECTED: &str = "L1 NO [AUTHENTICATIONFAILED] refused\r\n";
    for (greeting, steps) in [
        (OAUTHBEARER, vec![reply_to("AUTHENTICATE", REJECTED)]),
        (
            OAUTHBEARER,
            vec![
                reply_to("AUTHENTICATE", REASON),
                reply_to("AQ==\r\n", REJECTED),
            ],
        ),
        // The reply of XOAUTH2 is an empty line.
        (
            XOAUTH2,
            vec![reply_to("AUTHENTICATE", REASON), reply_to("\r\n", REJECTED)],
        ),
    ] {
        let (outcome, pooled) = list_folders(greeting, steps, None).await;
        assert!(
            matches!(outcome, Err(Error::CredentialRefused)),
            "{outcome:?}"
        );
        assert_eq!(pooled, 0);
    }
    let temporary = vec![
        reply_to("AUTHENTICATE", REASON),
        reply_to("AQ==\r\n", "L1 NO [UNAVAILABLE] later\r\n"),
    ];
    let (outcome, _) = list_folders(OAUTHBEARER, temporary, None).await;
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_never_sent_as_a_password() {
    for greeting in [
        "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN AUTH=LOGIN] hello\r\n",
        "* OK [CAPABILITY IMAP4rev1] hello\r\n",
    ] {
        let accepts_all = vec![
            reply_to("AUTHENTICATE", LOGGED_IN),
            reply_to("LOGIN", LOGGED_IN),
            LIST,
        ];
        match list_folders(greeting, accepts_all, None).await.0 {
            Err(Error::Unavailable(why)) => assert!(why.contains("XOAUTH2"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_not_pooled_after_its_token_has_expired() {
    const HELLO: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=OAUTHBEARER] hello\r\n";
    let (now, hour) = (Instant::now(), Duration::from_hours(1));
    for (expires_at, expected) in [(None, 1), (Some(now + hour), 1), (Some(now), 0)] {
        let (outcome, pooled) = list_folders(
            HELLO,
            vec![reply_to(OAUTHBEARER_RESPONSE, LOGGED_IN), LIST],
            expires_at,
        )
        .await;
        outcome.unwrap();
        assert_eq!(pooled, expected);
    }
}
