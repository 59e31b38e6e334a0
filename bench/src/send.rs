//! Compares sending a mail with its bare submission. The route does more: it composes the message, and files a copy in Sent. With one
//! client, each call has the mail server to itself; several clients share it, also with the deliveries.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::http;
use crate::mailbox::{Random, prose};
use crate::measure::{Call, Size, alone, settled};
use crate::report::Report;
use crate::routes::CLIENTS;
use crate::service::{ADDRESS, Service};

/// Recipient: an account of the same mail server, so that the delivered messages can be counted.
const RECIPIENT: &str = "charles";
const TO: &str = "charles@bench.test";

const SUBJECT: &str = "Notes on the engine";

/// Size of the text in bytes.
const LENGTH: usize = 4_000;

/// Target: maximum ratio of the route's p50 to its counterpart's.
const TARGET: f64 = 2.0;

/// Maximum time that the mail server may take to deliver the messages of one turn.
const PATIENCE: Duration = Duration::from_mins(1);

/// Measures sending with one client and with several.
pub(crate) fn measure(service: &Service, size: &Size, report: &mut Report) -> anyhow::Result<()> {
    let mut recipient = service.http_of(&service.register(RECIPIENT)?)?;
    let sent = AtomicUsize::new(0);
    // This runs before the first mail arrives, because an empty mailbox is created when it is first opened.
    arrived(&mut recipient, 0)?;
    let mut left = vec![raw(service, &sent)?];
    let mut right = vec![routed(service, &sent)?];
    let mut settle = || arrived(&mut recipient, sent.load(Ordering::Relaxed));
    settle()?;
    let [submitted, sent_off] = alone(size, &mut left[0], &mut right[0], &mut settle)?;
    report.latency("send of 4 kB", &submitted, &sent_off, Some(TARGET));
    // These connections are opened only now, because the mail server closes idle connections.
    for _ in 1..CLIENTS {
        left.push(raw(service, &sent)?);
        right.push(routed(service, &sent)?);
    }
    let [submitted, sent_off] = settled(size, &mut left, &mut right, &mut settle)?;
    report.throughput("send of 4 kB", CLIENTS, &submitted, &sent_off, None);
    Ok(())
}

fn text() -> String {
    prose(LENGTH, &mut Random(3))
}

fn raw<'a>(service: &Service, sent: &'a AtomicUsize) -> anyhow::Result<Call<'a>> {
    let message = format!(
        "From: <{ADDRESS}>\r\nTo: <{TO}>\r\nSubject: {SUBJECT}\r\nDate: Fri, 20 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <raw@bench.test>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n.\r\n",
        text()
    );
    let mut smtp = service.smtp()?;
    Ok(Box::new(move || {
        smtp.send(ADDRESS, TO, message.as_bytes())?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }))
}

fn routed<'a>(service: &Service, sent: &'a AtomicUsize) -> anyhow::Result<Call<'a>> {
    let request =
        json!({ "from": ADDRESS, "to": TO, "subject": SUBJECT, "text": text() }).to_string();
    let mut http = service.http()?;
    let mut submit = move || -> anyhow::Result<Vec<u8>> {
        let answer = http.change("/api/v1/mail/send", &request)?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    };
    let answer: Value = serde_json::from_slice(&submit()?)?;
    anyhow::ensure!(answer["savedTo"].is_string(), "no copy was filed: {answer}");
    Ok(Box::new(move || submit().map(drop)))
}

/// Waits until the recipient has as many messages as were sent. The mail server delivers a message after it has accepted it, and delivery
/// takes longer than acceptance. Without waiting, pending deliveries would slow down the next calls, and slow calls most.
fn arrived(recipient: &mut http::Client, sent: usize) -> anyhow::Result<()> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let answer = recipient.json("/api/v1/mail/folders")?;
        let folders = answer["folders"].as_array().context("no folders")?;
        let inbox = folders.iter().find(|folder| folder["path"] == "INBOX");
        let messages = &inbox.context("no inbox")?["messages"];
        if *messages == sent {
            return Ok(());
        }
        anyhow::ensure!(
            messages.as_u64() < u64::try_from(sent).ok() && Instant::now() < patience,
            "{sent} messages were sent and {messages} arrived"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
