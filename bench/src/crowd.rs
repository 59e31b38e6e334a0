//! Compares listing a folder of very many messages with listing a small folder. The cost of a page must not depend on the messages that are
//! not on it.

use crate::mailbox;
use crate::measure::{Size, both};
use crate::report::Report;
use crate::routes::routed;
use crate::service::Service;

/// The folders, the small one first.
const FOLDERS: [&str; 2] = ["Few", "Many"];

/// Target: maximum ratio of the listing's p50 in the large folder to that in the small folder.
const TARGET: f64 = 1.2;

/// Minimum size of a page of 50 in bytes.
const LEAST: usize = 10_000;

/// Fills both folders and measures them.
pub(crate) fn measure(service: &Service, size: &Size, report: &mut Report) -> anyhow::Result<()> {
    for (folder, messages) in FOLDERS.into_iter().zip(size.folders) {
        mailbox::folder(service, folder, messages)?;
    }
    // A mail program that opens a folder clears `\Recent` of its messages; the service only reads and does not. If no mail program opens
    // the folder, all messages stay recent, and the mail server collects them whenever the folder is opened read-only. The listing must be
    // fast in both states.
    compare(service, size, "all recent", report)?;
    let mut client = service.imap()?;
    for folder in FOLDERS {
        client.run(&format!("SELECT {folder}"))?;
    }
    compare(service, size, "none recent", report)
}

fn compare(service: &Service, size: &Size, state: &str, report: &mut Report) -> anyhow::Result<()> {
    let [few, many] =
        FOLDERS.map(|folder| format!("/api/v1/mail/folders/{folder}/messages?limit=50"));
    let mut left = routed(service, &few, 1, LEAST)?;
    let mut right = routed(service, &many, 1, LEAST)?;
    let [left, right] = both(size, &mut left, &mut right)?;
    let [few, many] = size.folders;
    let name = format!("listing, {many} beside {few}, {state}");
    report.latency(&name, &left, &right, Some(TARGET));
    Ok(())
}
