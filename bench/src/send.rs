//! Compares sending a message over the API with a submission over SMTP. The route also composes the message and stores a copy in Sent.
//!
//! With one client, the mail server finishes each delivery before the next call. With several clients, it delivers concurrently.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::http;
use crate::measure::{Call, Workload, compare_single_calls, compare_with_settle};
use crate::messages::{Random, words};
use crate::report::Report;
use crate::routes::CLIENTS;
use crate::service::{ADDRESS, Service};

/// The recipient is an account of the same mail server, so that the delivered messages can be counted.
const RECIPIENT_NAME: &str = "charles";
const RECIPIENT: &str = "charles@bench.test";

const SUBJECT: &str = "Notes on the engine";

/// Size of the text in bytes.
const TEXT_LENGTH: usize = 4_000;

/// Target: maximum ratio of the route's p50 to its counterpart's.
const TARGET: f64 = 1.6;

/// Maximum time until the mail server has delivered the messages of one interval.
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(1);

/// Measures sending with one client and with several.
pub(crate) fn measure(
    service: &Service,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut recipient = service.http_of(&service.register(RECIPIENT_NAME)?)?;
    let sent = AtomicUsize::new(0);
    // Opens the mailbox before the first message arrives, because the mail server creates it when it is first opened.
    let mut surplus = 0;
    wait_for_delivery(&mut recipient, 0, &mut surplus)?;
    let mut left = vec![smtp_call(service, &sent)?];
    let mut right = vec![http_call(service, &sent)?];
    let mut settle = || {
        let sent = sent.load(Ordering::Relaxed);
        wait_for_delivery(&mut recipient, sent, &mut surplus)
    };
    settle()?;
    let [smtp, api] = compare_single_calls(workload, &mut left[0], &mut right[0], &mut settle)?;
    report.latency("send of 4 kB", &smtp, &api, Some(TARGET));
    // The other connections are opened only now, because the mail server closes idle connections.
    for _ in 1..CLIENTS {
        left.push(smtp_call(service, &sent)?);
        right.push(http_call(service, &sent)?);
    }
    let [smtp, api] = compare_with_settle(workload, &mut left, &mut right, &mut settle)?;
    report.throughput("send of 4 kB", CLIENTS, &smtp, &api, None);
    report.count("send of 4 kB, repeated deliveries", surplus, "messages");
    Ok(())
}

fn text() -> String {
    words(TEXT_LENGTH, &mut Random(3))
}

fn smtp_call<'a>(service: &Service, sent: &'a AtomicUsize) -> anyhow::Result<Call<'a>> {
    let message = format!(
        "From: <{ADDRESS}>\r\nTo: <{RECIPIENT}>\r\nSubject: {SUBJECT}\r\nDate: Fri, 20 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <raw@bench.test>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n.\r\n",
        text()
    );
    let mut smtp = service.smtp()?;
    Ok(Box::new(move || {
        smtp.send(ADDRESS, RECIPIENT, message.as_bytes())?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }))
}

fn http_call<'a>(service: &Service, sent: &'a AtomicUsize) -> anyhow::Result<Call<'a>> {
    let request =
        json!({ "from": ADDRESS, "to": RECIPIENT, "subject": SUBJECT, "text": text() }).to_string();
    let mut http = service.http()?;
    let mut submit = move || -> anyhow::Result<Vec<u8>> {
        let response = http.post_ok("/api/v1/mail/send", &request)?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(response)
    };
    let response: Value = serde_json::from_slice(&submit()?)?;
    anyhow::ensure!(
        response["savedTo"].is_string(),
        "no copy was stored: {response}"
    );
    Ok(Box::new(move || submit().map(drop)))
}

/// Waits until the recipient has all sent messages. The mail server delivers messages after it has accepted them, and delivery takes longer.
/// Without waiting, pending deliveries would slow down the next calls.
///
/// Postfix repeats a delivery if it gets no confirmation from Dovecot (RFC 1047), so the recipient can have more messages than were sent.
/// `surplus` is the number of these messages. Until the next call, a repeated delivery can hide a pending delivery.
fn wait_for_delivery(
    recipient: &mut http::Client,
    sent: usize,
    surplus: &mut usize,
) -> anyhow::Result<()> {
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
        if messages >= sent + *surplus {
            *surplus = messages - sent;
            return Ok(());
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "{sent} messages were sent and {messages} were delivered"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
