//! Compares the creation of a draft with APPEND, and sending a draft with sending a message.

use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::mailbox;
use crate::measure::{self, Call, Workload, compare_single_calls};
use crate::messages::{Random, words};
use crate::report::Report;
use crate::send::{Delivery, RECIPIENT};
use crate::service::Service;

const DRAFTS: &str = "/api/v1/mail/drafts";

/// Size of the text in bytes.
const TEXT_LENGTH: usize = 4_000;

/// Target for creating: maximum ratio of the route's p50 to that of APPEND.
const CREATE_TARGET: f64 = 1.6;
/// Target for sending: maximum ratio of the route's p50 to that of the route that sends a message.
const SEND_TARGET: f64 = 1.3;

/// Measures drafts with one client.
pub(crate) fn measure(
    service: &Service,
    delivery: &Delivery,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    create(service, workload, report)?;
    send(service, delivery, workload, report)
}

fn draft(from: &str) -> String {
    let text = words(TEXT_LENGTH, &mut Random(3));
    let draft = json!({ "from": from, "to": RECIPIENT, "subject": "A draft", "text": text });
    draft.to_string()
}

/// Each side has its own folder, because APPEND locks its folder.
fn create(service: &Service, workload: &Workload, report: &mut Report) -> anyhow::Result<()> {
    mailbox::create_folder(service, "ImapDrafts", 0)?;
    let from = &service.measured().address;
    let message = format!(
        "From: <{from}>\r\nTo: <{RECIPIENT}>\r\nSubject: A draft\r\n\
         Date: Fri, 20 Nov 2026 10:00:00 +0100\r\nMessage-ID: <raw@bench.test>\r\n\
         MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n",
        words(TEXT_LENGTH, &mut Random(3))
    );
    let (mut imap, messages) = (service.imap()?, [message.into_bytes()]);
    let append: Call<'_> = Box::new(move || imap.append("ImapDrafts", &messages));
    let (mut http, request) = (service.http()?, draft(from));
    let route: Call<'_> = Box::new(move || {
        let response = http.post(DRAFTS, &request)?;
        anyhow::ensure!(response.status == 201, "status {}", response.status);
        Ok(())
    });
    let [raw, route] = measure::compare(workload, &mut [append], &mut [route])?;
    report.latency("draft of 4 kB", &raw, &route, Some(CREATE_TARGET));
    // A person has few drafts, and each request for a draft looks at all of them.
    let mut imap = service.imap()?;
    for command in [
        "SELECT Drafts",
        "STORE 1:* +FLAGS.SILENT (\\Deleted)",
        "EXPUNGE",
    ] {
        imap.run(command)?;
    }
    Ok(())
}

fn send(
    service: &Service,
    delivery: &Delivery,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let account = service.measured();
    let request = draft(&account.address);
    let mut creator = service.http()?;
    let mut create = move || -> anyhow::Result<String> {
        let response = creator.post(DRAFTS, &request)?;
        let draft: Value = serde_json::from_slice(&response.body)?;
        let id = draft["id"].as_str().context("the draft has no id")?;
        Ok(id.to_owned())
    };
    // The draft for the next call. Its creation is not measured.
    let next = Mutex::new(Some(create()?));
    let mut http = service.http()?;
    let mut left = delivery.http_call(service, account)?;
    let mut right: Call<'_> = Box::new(|| {
        let id = next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let id = id.context("there is no draft")?;
        http.post_ok(&format!("{DRAFTS}/{id}/send"), "")?;
        delivery.count();
        Ok(())
    });
    let settle = || {
        delivery.wait()?;
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none() {
            *next = Some(create()?);
        }
        Ok(())
    };
    let [direct, from_draft] = compare_single_calls(workload, &mut left, &mut right, settle)?;
    report.latency("send of a draft", &direct, &from_draft, Some(SEND_TARGET));
    Ok(())
}
