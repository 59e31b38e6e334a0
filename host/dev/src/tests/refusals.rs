//! Tests of mail that Postfix rejects: unknown recipients, SMTP smuggling, unauthorized pipelining
//! and an empty sender at submission.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::support::{
    ANN, Connection, Folder, TIMEOUT, deliver, imap, stack, submission, wait_for_messages,
    wait_for_sent,
};

#[tokio::test]
async fn an_unknown_recipient_is_rejected_at_rcpt_and_no_bounce_is_sent() {
    let folder = Folder::new("local");
    let (stack, _directory) = stack(&folder).await;
    let mut logged_in = submission(&stack).await;
    for (recipient, also_logged_in) in [
        ("x@[127.0.0.1]", true),
        ("\"x@[127.0.0.1]\"", true),
        ("postmaster@[127.0.0.1]", true),
        ("double-bounce@[127.0.0.1]", true),
        ("root", false),
        ("x@localhost", false),
        ("x@mail.latchmail.test", false),
        ("postmaster@mail.latchmail.test", false),
        ("double-bounce@mail.latchmail.test", false),
        ("postmaster@latchmail.test", true),
    ] {
        let reply = deliver(&stack, recipient, "x").await;
        assert!(reply.starts_with('5'), "{recipient}: {reply}");
        if also_logged_in {
            logged_in.smtp("RSET").await;
            logged_in.smtp(&format!("MAIL FROM:<{ANN}>")).await;
            let reply = logged_in.smtp(&format!("RCPT TO:<{recipient}>")).await;
            assert!(reply.starts_with('5'), "logged in, {recipient}: {reply}");
        }
    }
    stack.stop().await.unwrap();
}

/// RFC 5321, section 4.5.1.
#[tokio::test]
async fn mail_to_postmaster_without_a_domain_is_accepted_and_forwarded() {
    let folder = Folder::new("postmaster");
    let (stack, _directory) = stack(&folder).await;
    let reply = deliver(&stack, "Postmaster", "to whom it concerns").await;
    assert!(reply.starts_with("250"), "{reply}");
    let sent = wait_for_sent(&stack, "Subject: to whom it concerns").await;
    assert!(
        sent.contains("X-Mail-Args: <friend@there.example>"),
        "{sent}"
    );
    assert!(
        sent.contains("X-Rcpt-Args: <postmaster@sink.invalid>"),
        "{sent}"
    );
    stack.stop().await.unwrap();
}

/// CVE-2023-51764: sequences that one mail server treats as the end of the data and another does
/// not.
#[tokio::test]
async fn no_message_can_be_smuggled_behind_another() {
    let folder = Folder::new("smuggle");
    let (stack, _directory) = stack(&folder).await;
    let mut smtp = Connection::open(stack.smtp).await;
    smtp.smtp("EHLO there.example").await;
    let ends = ["\n.\r\n", "\n.\n", "\r\n.\n", "\r.\r\n", "\r\n.\r"];
    for end in ends {
        smtp.smtp("MAIL FROM:<friend@there.example>").await;
        smtp.smtp(&format!("RCPT TO:<{ANN}>")).await;
        smtp.smtp("DATA").await;
        let reply = smtp
            .smtp(&format!(
                "Subject: outer\r\n\r\nHello.{end}MAIL FROM:<boss@latchmail.test>\r\nRCPT TO:<{ANN}>\r\nDATA\r\n\
                 Subject: smuggled\r\n\r\nPay.\r\n."
            ))
            .await;
        assert!(reply.starts_with("250"), "{end:?}: {reply}");
        // The reply to a smuggled command would precede this reply.
        let reply = smtp.smtp("NOOP").await;
        assert!(reply.starts_with("250 2.0.0 Ok\r\n"), "{end:?}: {reply}");
    }
    let reply = smtp.smtp("QUIT").await;
    assert!(reply.starts_with("221"), "{reply}");
    let mut imap = imap(&stack).await;
    wait_for_messages(&mut imap, u32::try_from(ends.len()).unwrap()).await;
    let found = imap.imap("SEARCH SUBJECT smuggled").await;
    assert!(found.starts_with("* SEARCH\r\n"), "{found}");
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_pipelines_before_the_greeting_reply_is_disconnected() {
    let folder = Folder::new("pipelining");
    let (stack, _directory) = stack(&folder).await;
    for port in [stack.smtp, stack.submission] {
        let mut smtp = Connection::open(port).await;
        let ahead = b"EHLO there.example\r\nMAIL FROM:<friend@there.example>\r\n";
        smtp.0.write_all(ahead).await.unwrap();
        let mut replies = String::new();
        timeout(TIMEOUT, smtp.0.read_to_string(&mut replies))
            .await
            .expect("the connection was not closed")
            .unwrap();
        assert!(replies.contains("554 5.5.0"), "{replies}");
    }
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn submission_requires_a_sender_and_incoming_mail_does_not() {
    let folder = Folder::new("null");
    let (stack, _directory) = stack(&folder).await;
    let mut smtp = submission(&stack).await;
    smtp.smtp("MAIL FROM:<>").await;
    let reply = smtp.smtp("RCPT TO:<friend@there.example>").await;
    assert!(reply.starts_with("553"), "{reply}");

    // Other servers report undeliverable mail with an empty sender (RFC 5321, section 4.5.5).
    let mut smtp = Connection::open(stack.smtp).await;
    smtp.smtp("EHLO there.example").await;
    smtp.smtp("MAIL FROM:<>").await;
    let reply = smtp.smtp(&format!("RCPT TO:<{ANN}>")).await;
    assert!(reply.starts_with("250"), "{reply}");
    stack.stop().await.unwrap();
}
