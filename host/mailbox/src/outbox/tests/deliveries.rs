//! The requests for delivery reports, and the states of deliveries.

use super::*;
use crate::envelope_id::EnvelopeId;
use crate::outbox::{Delivery, delivery_report, notice};
use latchmail_directory::deliveries::DeliveryState;
use latchmail_directory::mailserver::MailServerView;

const WITH_DSN: &str = "250-here\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n250 AUTH PLAIN\r\n";

impl TestOutbox {
    async fn delivery(&self, message_id: &str) -> Option<Delivery> {
        let delivery = self.outbox.delivery(&self.access, message_id);
        delivery.await.unwrap()
    }

    async fn count(&self) -> i64 {
        self.fresh
            .number("SELECT COUNT(*) FROM sent_messages")
            .await
    }
}

fn statuses(delivery: &Delivery) -> Vec<&str> {
    delivery.recipients.iter().map(|one| one.status).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_has_a_secret_id_with_which_reports_change_its_state() {
    with_smtp_server("EHLO", WITH_DSN, async |test| {
        let message = Draft {
            to: vec![
                recipient("bo+x=y@example.net"),
                recipient("jörg@example.net"),
            ],
            bcc: Vec::new(),
            ..draft()
        };
        let sent = test.send(message, None).await.unwrap();
        let commands = test.smtp.take();
        let [.., mail, to, other, data, _] = &commands[..] else {
            panic!("{commands:?}");
        };
        assert_eq!(data, "DATA");
        let (_, id) = mail.split_once(" ENVID=").unwrap();
        let id = EnvelopeId::parse(b"key", id).unwrap();
        let notify = "NOTIFY=SUCCESS,FAILURE,DELAY";
        assert_eq!(
            [to.as_str(), other.as_str()],
            [
                format!(
                    "RCPT TO:<bo+x=y@example.net> {notify} ORCPT=rfc822;bo+2Bx+3Dy@example.net"
                ),
                format!("RCPT TO:<jörg@example.net> {notify}"),
            ]
        );
        let delivery = test.delivery(&sent.message_id).await.unwrap();
        assert_eq!(statuses(&delivery), ["queued", "queued"]);

        let now = Clock::system().now();
        let reports = [
            delivery_report(
                "Bo+X=Y@Example.Net",
                DeliveryState::Delivered,
                "250 ok",
                now,
            ),
            delivery_report(
                "jörg@example.net",
                DeliveryState::Bounced,
                "550\r\n no",
                now,
            ),
        ];
        let view = MailServerView::new(&test.fresh.config).unwrap();
        let hash = id.hash();
        let added = view.add_delivery_reports(&hash, &reports);
        added.await.unwrap();
        let delivery = test.delivery(&sent.message_id).await.unwrap();
        assert_eq!(statuses(&delivery), ["delivered", "bounced"]);
        let details: Vec<_> = delivery
            .recipients
            .iter()
            .map(|one| one.detail.as_deref())
            .collect();
        assert_eq!(details, [None, Some("550 no")]);

        let next = test.send(draft_to_one(), None).await.unwrap();
        let commands = test.smtp.take();
        assert!(!commands.iter().any(|command| command.contains(id.as_str())));
        let delivery = test.delivery(&next.message_id).await.unwrap();
        assert_eq!(statuses(&delivery), ["queued"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_requests_no_reports_and_is_not_recorded() {
    with_smtp_server("EHLO", WITH_DSN, async |test| {
        notice::send(&test.outbox, draft_to_one()).await.unwrap();
        let commands = test.smtp.take();
        let [.., mail, to, _, _] = &commands[..] else {
            panic!("{commands:?}");
        };
        assert!(mail.ends_with("> RET=HDRS"), "{commands:?}");
        assert!(to.ends_with("> NOTIFY=NEVER"), "{commands:?}");
        assert_eq!(test.count().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_reports_leaves_the_state_unknown() {
    with_smtp_server("", "", async |test| {
        let sent = test.send(draft(), None).await.unwrap();
        let commands = test.smtp.take();
        assert!(!commands.iter().any(|command| command.contains("NOTIFY")));
        let delivery = test.delivery(&sent.message_id).await.unwrap();
        assert_eq!(statuses(&delivery), ["unknown", "unknown"]);
        let detail = delivery.recipients[0].detail.as_deref();
        assert_eq!(detail, Some("The mail server does not report deliveries"));
        assert_eq!(test.delivery("<none@example.org>").await, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_not_sent_is_not_recorded() {
    for (at, reply, recorded) in [("RCPT", "550 5.1.1 no\r\n", 0), (".", "", 1)] {
        with_smtp_server(at, reply, async move |test| {
            test.send(draft_to_one(), None).await.unwrap_err();
            assert_eq!(test.count().await, recorded, "{at}");
        })
        .await;
    }
}
