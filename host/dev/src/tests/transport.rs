//! Tests of the transport of mail: incoming, outgoing, and the size limit.

use futures_util::future::join_all;

use super::support::{
    ANN, Connection, Folder, assert_mail_is_delivered, imap, stack, submission, wait_for_messages,
    wait_for_sent,
};

#[tokio::test]
async fn mail_for_an_address_or_an_alias_is_delivered_and_other_mail_is_rejected() {
    let folder = Folder::new("mail");
    let (stack, _directory) = stack(&folder).await;
    assert_mail_is_delivered(&stack).await;
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn submission_accepts_own_senders_and_stores_external_mail_in_the_sink() {
    let folder = Folder::new("submit");
    let (stack, _directory) = stack(&folder).await;
    let mut anonymous = Connection::open(stack.submission).await;
    anonymous.smtp("EHLO here.example").await;
    anonymous.smtp(&format!("MAIL FROM:<{ANN}>")).await;
    let reply = anonymous.smtp("RCPT TO:<friend@there.example>").await;
    assert!(reply.starts_with("55"), "without authentication: {reply}");

    let mut smtp = submission(&stack).await;
    for (sender, expected) in [
        ("boss@latchmail.test", "553"),
        ("someone@there.example", "553"),
        ("shop@latchmail.test", "250"),
        (ANN, "250"),
    ] {
        smtp.smtp("RSET").await;
        smtp.smtp(&format!("MAIL FROM:<{sender}>")).await;
        let reply = smtp.smtp("RCPT TO:<friend@there.example>").await;
        assert!(reply.starts_with(expected), "{sender}: {reply}");
    }
    smtp.smtp("DATA").await;
    let reply = smtp.smtp("Subject: out\r\n\r\nHello.\r\n.").await;
    assert!(reply.starts_with("250"), "{reply}");
    let sent = wait_for_sent(&stack, "Hello.").await;
    assert!(sent.contains(&format!("X-Mail-Args: <{ANN}>")), "{sent}");
    assert!(
        sent.contains("X-Rcpt-Args: <friend@there.example>"),
        "{sent}"
    );
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_message_of_the_maximum_size_is_accepted() {
    let folder = Folder::new("large");
    let (stack, _directory) = stack(&folder).await;
    let mut smtp = submission(&stack).await;
    smtp.smtp(&format!("MAIL FROM:<{ANN}> SIZE=27000000")).await;
    let reply = smtp.smtp(&format!("RCPT TO:<{ANN}>")).await;
    assert!(reply.starts_with("250"), "{reply}");
    smtp.smtp("DATA").await;
    let line = format!("{}\r\n", "x".repeat(998));
    let reply = smtp
        .smtp(&format!("Subject: large\r\n\r\n{}.", line.repeat(26_500)))
        .await;
    assert!(reply.starts_with("250"), "{reply}");
    wait_for_messages(&mut imap(&stack).await, 1).await;
    stack.stop().await.unwrap();
}

/// The number of concurrent deliveries of Postfix (`default_destination_concurrency_limit`).
#[tokio::test]
async fn twenty_concurrent_deliveries_to_one_account_are_accepted() {
    let folder = Folder::new("crowd");
    let (stack, _directory) = stack(&folder).await;
    let deliveries = (0..20).map(|_| async {
        let mut lmtp = Connection::open(stack.lmtp).await;
        lmtp.smtp("LHLO here.example").await;
        lmtp.smtp("MAIL FROM:<friend@there.example>").await;
        (lmtp.smtp(&format!("RCPT TO:<{ANN}>")).await, lmtp)
    });
    // No client continues before all have sent RCPT for the account.
    for (reply, mut lmtp) in join_all(deliveries).await {
        assert!(reply.starts_with("250"), "{reply}");
        lmtp.smtp("DATA").await;
        let reply = lmtp.smtp("Subject: one of many\r\n\r\nHello.\r\n.").await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    wait_for_messages(&mut imap(&stack).await, 20).await;
    stack.stop().await.unwrap();
}
