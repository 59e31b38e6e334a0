//! Compares sending a message over the API with a submission over SMTP. The route also composes the
//! message and stores a copy in Sent.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::http;
use crate::measure::{Call, Workload, compare_single_calls};
use crate::messages::{Random, words};
use crate::report::Report;
use crate::service::{Account, Service};

/// The recipient is an account of the same mail server, so that the delivered messages can be
/// counted.
const RECIPIENT_NAME: &str = "charles";
pub(crate) const RECIPIENT: &str = "charles@bench.test";

const SUBJECT: &str = "Notes on the engine";

/// Size of the text in bytes.
const TEXT_LENGTH: usize = 4_000;

/// Target: maximum ratio of the route's p50 to its counterpart's.
const TARGET: f64 = 1.4;

/// Maximum time until the mail server has delivered the messages of one interval.
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(1);

/// The recipient of all messages, and the number of sent messages.
pub(crate) struct Delivery {
    host: SocketAddr,
    token: String,
    sent: AtomicUsize,
    /// Postfix repeats a delivery if it gets no confirmation from Dovecot (RFC 1047), so the
    /// recipient can have more messages than were sent. This is the number of these messages. Until
    /// the next call, a repeated delivery can hide a pending delivery.
    surplus: AtomicUsize,
}

impl Delivery {
    /// Creates the account of the recipient.
    pub(crate) fn start(service: &Service) -> anyhow::Result<Self> {
        let delivery = Self {
            host: service.address(),
            token: service.register(RECIPIENT_NAME)?,
            sent: AtomicUsize::default(),
            surplus: AtomicUsize::default(),
        };
        // Opens the mailbox before the first message arrives, because the mail server creates it
        // when it is first opened.
        delivery.wait()?;
        Ok(delivery)
    }

    /// Waits until the recipient has all sent messages. The mail server delivers messages after it
    /// has accepted them, and delivery takes longer. Without waiting, pending deliveries would slow
    /// down the next calls.
    pub(crate) fn wait(&self) -> anyhow::Result<()> {
        // The service closes idle connections.
        let mut recipient = http::Client::connect(self.host, &self.token)?;
        let expected = self.sent.load(Ordering::Relaxed) + self.surplus.load(Ordering::Relaxed);
        let deadline = Instant::now() + DELIVERY_TIMEOUT;
        loop {
            let response = recipient.json("/api/v1/mail/folders")?;
            let folders = response["folders"]
                .as_array()
                .context("the response has no folders")?;
            let inbox = folders.iter().find(|folder| folder["path"] == "INBOX");
            let messages = inbox.context("there is no inbox")?["messages"]
                .as_u64()
                .context("the inbox has no number of messages")?;
            let messages = usize::try_from(messages)?;
            if messages >= expected {
                self.surplus
                    .fetch_add(messages - expected, Ordering::Relaxed);
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "{expected} messages were sent and {messages} were delivered"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Counts a message that was sent to the recipient.
    pub(crate) fn count(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a call that sends a message over SMTP.
    pub(crate) fn smtp_call<'a>(
        &'a self,
        service: &Service,
        account: &Account,
    ) -> anyhow::Result<Call<'a>> {
        let from = account.address.clone();
        let message = format!(
            "From: <{from}>\r\nTo: <{RECIPIENT}>\r\nSubject: {SUBJECT}\r\nDate: Fri, 20 Nov 2026 10:00:00 +0100\r\n\
             Message-ID: <raw@bench.test>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n.\r\n",
            text()
        );
        let mut smtp = service.smtp_of(account)?;
        Ok(Box::new(move || {
            smtp.send(&from, RECIPIENT, message.as_bytes())?;
            self.sent.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Returns a call that sends a message with the route.
    pub(crate) fn http_call<'a>(
        &'a self,
        service: &Service,
        account: &Account,
    ) -> anyhow::Result<Call<'a>> {
        let request =
            json!({ "from": account.address, "to": RECIPIENT, "subject": SUBJECT, "text": text() })
                .to_string();
        let mut http = service.http_of(&account.token)?;
        let mut submit = move || -> anyhow::Result<Vec<u8>> {
            let response = http.post_ok("/api/v1/mail/send", &request)?;
            self.sent.fetch_add(1, Ordering::Relaxed);
            Ok(response)
        };
        let response: Value = serde_json::from_slice(&submit()?)?;
        anyhow::ensure!(
            response["savedTo"].is_string(),
            "no copy was stored: {response}"
        );
        Ok(Box::new(move || submit().map(drop)))
    }
}

/// Measures sending with one client. The mail server finishes each delivery before the next call.
pub(crate) fn measure(
    service: &Service,
    delivery: &Delivery,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let account = service.measured();
    let mut left = delivery.smtp_call(service, account)?;
    let mut right = delivery.http_call(service, account)?;
    delivery.wait()?;
    let [smtp, api] = compare_single_calls(workload, &mut left, &mut right, || delivery.wait())?;
    report.latency("send of 4 kB", &smtp, &api, Some(TARGET));
    let surplus = delivery.surplus.load(Ordering::Relaxed);
    report.count("send of 4 kB, repeated deliveries", surplus, "messages");
    Ok(())
}

fn text() -> String {
    words(TEXT_LENGTH, &mut Random(3))
}
