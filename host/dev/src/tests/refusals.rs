//! Tests of mail that Postfix rejects: mail that could only bounce, a message smuggled behind another, and senders that do not exist.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    ANN, Folder, PATIENCE, Talk, arrived, deliver, imap, sent, stack, submission, timeout,
};

#[tokio::test]
async fn a_recipient_outside_of_the_directory_is_refused_and_not_bounced_later() {
    let folder = Folder::new("local");
    let (stack, _directory) = stack(&folder).await;
    let mut logged_in = submission(&stack).await;
    for (recipient, logged_in_too) in [
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
        let answer = deliver(&stack, recipient, "x").await;
        assert!(answer.starts_with('5'), "{recipient}: {answer}");
        if logged_in_too {
            logged_in.smtp("RSET").await;
            logged_in.smtp(&format!("MAIL FROM:<{ANN}>")).await;
            let answer = logged_in.smtp(&format!("RCPT TO:<{recipient}>")).await;
            assert!(answer.starts_with('5'), "logged in, {recipient}: {answer}");
        }
    }
    stack.stop().await.unwrap();
}

/// RFC 5321, section 4.5.1.
#[tokio::test]
async fn a_bare_postmaster_is_taken_and_has_a_reader() {
    let folder = Folder::new("postmaster");
    let (stack, _directory) = stack(&folder).await;
    let answer = deliver(&stack, "Postmaster", "to whom it concerns").await;
    assert!(answer.starts_with("250"), "{answer}");
    let sent = sent(&stack, "Subject: to whom it concerns").await;
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

/// CVE-2023-51764: an end of data that another server on the way would not recognize.
#[tokio::test]
async fn nothing_is_smuggled_behind_a_message() {
    let folder = Folder::new("smuggle");
    let (stack, _directory) = stack(&folder).await;
    let mut smtp = Talk::with(stack.smtp).await;
    smtp.smtp("EHLO there.example").await;
    let ends = ["\n.\r\n", "\n.\n", "\r\n.\n", "\r.\r\n", "\r\n.\r"];
    for end in ends {
        smtp.smtp("MAIL FROM:<friend@there.example>").await;
        smtp.smtp(&format!("RCPT TO:<{ANN}>")).await;
        smtp.smtp("DATA").await;
        let answer = smtp
            .smtp(&format!(
                "Subject: outer\r\n\r\nHello.{end}MAIL FROM:<boss@latchmail.test>\r\nRCPT TO:<{ANN}>\r\nDATA\r\n\
                 Subject: smuggled\r\n\r\nPay.\r\n."
            ))
            .await;
        assert!(answer.starts_with("250"), "{end:?}: {answer}");
        // The reply to a smuggled command would precede this reply.
        let answer = smtp.smtp("NOOP").await;
        assert!(answer.starts_with("250 2.0.0 Ok\r\n"), "{end:?}: {answer}");
    }
    let answer = smtp.smtp("QUIT").await;
    assert!(answer.starts_with("221"), "{answer}");
    let mut imap = imap(&stack).await;
    arrived(&mut imap, u32::try_from(ends.len()).unwrap()).await;
    let found = imap.imap("SEARCH SUBJECT smuggled").await;
    assert!(found.starts_with("* SEARCH\r\n"), "{found}");
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_talks_out_of_turn_is_hung_up_on() {
    let folder = Folder::new("turn");
    let (stack, _directory) = stack(&folder).await;
    for port in [stack.smtp, stack.submission] {
        let mut smtp = Talk::with(port).await;
        let ahead = b"EHLO there.example\r\nMAIL FROM:<friend@there.example>\r\n";
        smtp.0.write_all(ahead).await.unwrap();
        let mut answers = String::new();
        timeout(PATIENCE, smtp.0.read_to_string(&mut answers))
            .await
            .expect("an end of the connection")
            .unwrap();
        assert!(answers.contains("554 5.5.0"), "{answers}");
    }
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn submission_wants_a_sender_and_the_world_may_do_without() {
    let folder = Folder::new("null");
    let (stack, _directory) = stack(&folder).await;
    let mut smtp = submission(&stack).await;
    smtp.smtp("MAIL FROM:<>").await;
    let answer = smtp.smtp("RCPT TO:<friend@there.example>").await;
    assert!(answer.starts_with("553"), "{answer}");

    // Other servers report undeliverable mail with an empty sender (RFC 5321, section 4.5.5).
    let mut smtp = Talk::with(stack.smtp).await;
    smtp.smtp("EHLO there.example").await;
    smtp.smtp("MAIL FROM:<>").await;
    let answer = smtp.smtp(&format!("RCPT TO:<{ANN}>")).await;
    assert!(answer.starts_with("250"), "{answer}");
    stack.stop().await.unwrap();
}
