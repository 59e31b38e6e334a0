//! A listing in a folder with very many messages beside the same in a folder with few: what a page costs must not grow with what is not on it.

use crate::mailbox;
use crate::measure::{Size, both};
use crate::report::Report;
use crate::routes::routed;
use crate::service::Service;

/// The folders, the small one first.
const FOLDERS: [&str; 2] = ["Few", "Many"];

/// The most that the listing's p50 in the large folder may be of that in the small one.
const TARGET: f64 = 1.2;

/// The least bytes of a page of 50.
const LEAST: usize = 10_000;

/// Fills both folders and measures them.
pub(crate) fn measure(service: &Service, size: &Size, report: &mut Report) -> anyhow::Result<()> {
    for (folder, messages) in FOLDERS.into_iter().zip(size.folders) {
        mailbox::folder(service, folder, messages)?;
    }
    // A mail program that opens a folder takes `\Recent` off its messages; the service that only reads does not. In a mailbox that no mail
    // program opens all stay recent, and the mail server gathers them whenever it opens a folder read-only: both states are to be fast.
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
