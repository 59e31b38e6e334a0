//! Tests of log-in with access tokens: possible replies of servers. Tests with a real server are in the service tests.

use std::time::Duration;

use latchmail_core::caller::Proof;
use tokio::time::Instant;

use super::access;
use super::peer::{Step, says, with_peer};
use crate::Error;

/// `n,a=ada@example.org,^Aauth=Bearer t0ken^A^A`
const BEARER: &str = "bixhPWFkYUBleGFtcGxlLm9yZywBYXV0aD1CZWFyZXIgdDBrZW4BAQ==";
/// `user=ada@example.org^Aauth=Bearer t0ken^A^A`
const OLDER: &str = "dXNlcj1hZGFAZXhhbXBsZS5vcmcBYXV0aD1CZWFyZXIgdDBrZW4BAQ==";

/// `{"status":"invalid_token"}`: the server's reason, sent before it rejects the token.
const WHY: &str = "+ eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIn0=\r\n";
const LIST: Step = says("LIST", "{tag} OK listed\r\n");
const IN: &str = "{tag} OK [CAPABILITY IMAP4rev1] in\r\n";

/// Lists the folders with a token that expires at `until`. Returns the result and the number of pooled connections.
async fn asked(
    greeting: &'static str,
    steps: Vec<Step>,
    until: Option<Instant>,
) -> (Result<(), Error>, usize) {
    with_peer(greeting, steps, async move |mail, _| {
        let mut access = access("ada", "its-hash");
        access.credential.proof = Proof::AccessToken {
            token: "t0ken".into(),
            until,
        };
        let folders = mail.folders(&access).await.map(drop);
        (folders, mail.connections("ada"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_by_the_better_mechanism_that_is_offered() {
    let cases: [(&str, Vec<Step>); 4] = [
        (
            "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=XOAUTH2 AUTH=OAUTHBEARER AUTH=PLAIN] hello\r\n",
            vec![says(BEARER, IN)],
        ),
        (
            "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN AUTH=XOAUTH2] hello\r\n",
            vec![says(OLDER, IN)],
        ),
        // Without SASL-IR, the server requests the response first.
        (
            "* OK [CAPABILITY IMAP4rev1 AUTH=OAUTHBEARER] hello\r\n",
            vec![
                says("AUTHENTICATE OAUTHBEARER\r\n", "+ \r\n"),
                says(BEARER, "L1 OK [CAPABILITY IMAP4rev1] in\r\n"),
            ],
        ),
        // The server lists its capabilities only on request.
        (
            "* OK hello\r\n",
            vec![
                says(
                    "CAPABILITY",
                    "* CAPABILITY IMAP4rev1 AUTH=XOAUTH2\r\n{tag} OK done\r\n",
                ),
                says("AUTHENTICATE XOAUTH2\r\n", "+ \r\n"),
                says(OLDER, "L2 OK [CAPABILITY IMAP4rev1] in\r\n"),
            ],
        ),
    ];
    for (greeting, mut steps) in cases {
        steps.push(LIST);
        let (outcome, kept) = asked(greeting, steps, None).await;
        outcome.unwrap_or_else(|error| panic!("{greeting}: {error}"));
        assert_eq!(kept, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_refused_whether_or_not_the_server_tells_why() {
    const BOTH: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=OAUTHBEARER] hello\r\n";
    const OLD: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=XOAUTH2] hello\r\n";
    const NO: &str = "L1 NO [AUTHENTICATIONFAILED] refused\r\n";
    for (greeting, steps) in [
        (BOTH, vec![says("AUTHENTICATE", NO)]),
        (BOTH, vec![says("AUTHENTICATE", WHY), says("AQ==\r\n", NO)]),
        // The reply of XOAUTH2 is an empty line.
        (OLD, vec![says("AUTHENTICATE", WHY), says("\r\n", NO)]),
    ] {
        let (outcome, kept) = asked(greeting, steps, None).await;
        assert!(
            matches!(outcome, Err(Error::CredentialRefused)),
            "{outcome:?}"
        );
        assert_eq!(kept, 0);
    }
    let later = vec![
        says("AUTHENTICATE", WHY),
        says("AQ==\r\n", "L1 NO [UNAVAILABLE] later\r\n"),
    ];
    let (outcome, _) = asked(BOTH, later, None).await;
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_never_shown_as_a_password() {
    for greeting in [
        "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN AUTH=LOGIN] hello\r\n",
        "* OK [CAPABILITY IMAP4rev1] hello\r\n",
    ] {
        let taken = vec![says("AUTHENTICATE", IN), says("LOGIN", IN), LIST];
        match asked(greeting, taken, None).await.0 {
            Err(Error::Unavailable(why)) => assert!(why.contains("XOAUTH2"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_is_kept_beyond_its_tokens_end() {
    const HELLO: &str = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=OAUTHBEARER] hello\r\n";
    let (now, hour) = (Instant::now(), Duration::from_hours(1));
    for (until, expected) in [(None, 1), (Some(now + hour), 1), (Some(now), 0)] {
        let (outcome, kept) = asked(HELLO, vec![says(BEARER, IN), LIST], until).await;
        outcome.unwrap();
        assert_eq!(kept, expected);
    }
}
