//! Tests of the transport of mail: incoming, outgoing, and the size limit.

use futures_util::future::join_all;

use super::{ANN, Folder, Talk, a_mail_goes_all_the_way, arrived, imap, sent, stack, submission};

#[tokio::test]
async fn a_mail_for_an_address_or_an_alias_arrives_and_others_are_refused() {
    let folder = Folder::new("mail");
    let (stack, _directory) = stack(&folder).await;
    a_mail_goes_all_the_way(&stack).await;
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn submission_takes_own_senders_and_keeps_mail_to_the_world_in_the_sink() {
    let folder = Folder::new("submit");
    let (stack, _directory) = stack(&folder).await;
    let mut stranger = Talk::with(stack.submission).await;
    stranger.smtp("EHLO here.example").await;
    stranger.smtp(&format!("MAIL FROM:<{ANN}>")).await;
    let answer = stranger.smtp("RCPT TO:<friend@there.example>").await;
    assert!(answer.starts_with("55"), "without a log-in: {answer}");

    let mut smtp = submission(&stack).await;
    for (sender, expected) in [
        ("boss@latchmail.test", "553"),
        ("someone@there.example", "553"),
        ("shop@latchmail.test", "250"),
        (ANN, "250"),
    ] {
        smtp.smtp("RSET").await;
        smtp.smtp(&format!("MAIL FROM:<{sender}>")).await;
        let answer = smtp.smtp("RCPT TO:<friend@there.example>").await;
        assert!(answer.starts_with(expected), "{sender}: {answer}");
    }
    smtp.smtp("DATA").await;
    let answer = smtp.smtp("Subject: out\r\n\r\nHello.\r\n.").await;
    assert!(answer.starts_with("250"), "{answer}");
    let sent = sent(&stack, "Hello.").await;
    assert!(sent.contains(&format!("X-Mail-Args: <{ANN}>")), "{sent}");
    assert!(
        sent.contains("X-Rcpt-Args: <friend@there.example>"),
        "{sent}"
    );
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_message_as_large_as_the_service_takes_is_taken() {
    let folder = Folder::new("large");
    let (stack, _directory) = stack(&folder).await;
    let mut smtp = submission(&stack).await;
    smtp.smtp(&format!("MAIL FROM:<{ANN}> SIZE=27000000")).await;
    let answer = smtp.smtp(&format!("RCPT TO:<{ANN}>")).await;
    assert!(answer.starts_with("250"), "{answer}");
    smtp.smtp("DATA").await;
    let line = format!("{}\r\n", "x".repeat(998));
    let answer = smtp
        .smtp(&format!("Subject: large\r\n\r\n{}.", line.repeat(26_500)))
        .await;
    assert!(answer.starts_with("250"), "{answer}");
    arrived(&mut imap(&stack).await, 1).await;
    stack.stop().await.unwrap();
}

/// The number of concurrent deliveries of Postfix (`default_destination_concurrency_limit`).
#[tokio::test]
async fn twenty_deliveries_to_one_account_at_the_same_time_are_taken() {
    let folder = Folder::new("crowd");
    let (stack, _directory) = stack(&folder).await;
    let deliveries = (0..20).map(|_| async {
        let mut lmtp = Talk::with(stack.lmtp).await;
        lmtp.smtp("LHLO here.example").await;
        lmtp.smtp("MAIL FROM:<friend@there.example>").await;
        (lmtp.smtp(&format!("RCPT TO:<{ANN}>")).await, lmtp)
    });
    // No client continues before all have sent RCPT for the account.
    for (answer, mut lmtp) in join_all(deliveries).await {
        assert!(answer.starts_with("250"), "{answer}");
        lmtp.smtp("DATA").await;
        let answer = lmtp.smtp("Subject: one of many\r\n\r\nHello.\r\n.").await;
        assert!(answer.starts_with("250"), "{answer}");
    }
    arrived(&mut imap(&stack).await, 20).await;
    stack.stop().await.unwrap();
}
