//! Compares a listing of a large folder with a listing of a small folder. The cost of a page must
//! not depend on the size of the folder.

use crate::mailbox;
use crate::measure::{self, Workload};
use crate::operations::http_call;
use crate::report::Report;
use crate::service::Service;

/// The folders, the small one first.
const FOLDERS: [&str; 2] = ["Small", "Large"];

/// Target: maximum ratio of the listing's p50 in the large folder to that in the small folder.
const TARGET: f64 = 1.2;

/// Minimum size in bytes of a page of 50 messages.
const MIN_LENGTH: usize = 10_000;

/// Fills both folders and measures the listings.
pub(crate) fn measure(
    service: &Service,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    for (folder, messages) in FOLDERS.into_iter().zip(workload.folders) {
        mailbox::create_folder(service, folder, messages)?;
    }
    // All messages are `\Recent` until a client opens the folder with SELECT. The service opens
    // folders read-only, which does not clear the flag, and the mail server then collects the
    // recent messages at each open. The listing must be fast in both states.
    compare(service, workload, "all recent", report)?;
    let mut client = service.imap()?;
    for folder in FOLDERS {
        client.run(&format!("SELECT {folder}"))?;
    }
    compare(service, workload, "none recent", report)
}

fn compare(
    service: &Service,
    workload: &Workload,
    state: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let listing = |folder| {
        let path = format!("/api/v1/mail/folders/{folder}/messages?limit=50");
        http_call(service, service.measured(), path, MIN_LENGTH)
    };
    let [small, large] = FOLDERS.map(listing);
    let (mut left, mut right) = ([small?], [large?]);
    let [left, right] = measure::compare(workload, &mut left, &mut right)?;
    let [small, large] = workload.folders;
    let name = format!("listing of {large} and {small} messages, {state}");
    report.latency(&name, &left, &right, Some(TARGET));
    Ok(())
}
