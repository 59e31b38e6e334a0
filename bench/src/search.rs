//! Compares a search of the inbox with the IMAP commands SEARCH and FETCH for the first page of results.

use anyhow::Context as _;

use crate::measure::{Call, Workload, compare};
use crate::operations::SUMMARY;
use crate::report::Report;
use crate::routes::http_calls;
use crate::service::Service;

/// The name of a sender of a few percent of the messages, which fill more than one page. No body contains the name, so the mail server reads
/// all other messages completely.
const TERM: &str = "sender17";

/// Number of messages on a page.
const PAGE: usize = 50;

/// Maximum number of intervals per side, because a search of 10,000 messages takes about a second. There is no row with several clients,
/// because it would measure the number of cores.
const MAX_ROUNDS: usize = 3;

/// Measures the search.
pub(crate) fn measure(
    service: &Service,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let path = format!("/api/v1/mail/search?q={TERM}&folder=INBOX");
    let criteria = format!(
        r#"CHARSET UTF-8 OR OR OR OR SUBJECT "{TERM}" FROM "{TERM}" TO "{TERM}" CC "{TERM}" BODY "{TERM}""#
    );
    let mut imap = service.imap()?;
    let expected = imap.search(&criteria)?.len();
    let found = service.http()?.json(&path)?;
    anyhow::ensure!(
        found["total"] == expected,
        "the route finds {} messages, the mail server {expected}",
        found["total"]
    );
    let shown = found["messages"]
        .as_array()
        .context("the response has no messages")?
        .len();
    anyhow::ensure!(shown == expected.min(PAGE), "the page has {shown} messages");

    let mut left: [Call<'_>; 1] = [Box::new(move || {
        let found = imap.search(&criteria)?;
        anyhow::ensure!(
            found.len() == expected,
            "found {} messages instead of {expected}",
            found.len()
        );
        let newest: Vec<String> = found[expected.saturating_sub(PAGE)..]
            .iter()
            .map(ToString::to_string)
            .collect();
        imap.run(&format!("UID FETCH {} {SUMMARY}", newest.join(",")))?;
        Ok(())
    })];
    let mut right = http_calls(service, &path, 1, 0)?;
    let short_workload = Workload {
        rounds: workload.rounds.min(MAX_ROUNDS),
        ..*workload
    };
    let [raw, route] = compare(&short_workload, &mut left, &mut right)?;
    let name = format!("search of {}", workload.messages);
    report.latency(&name, &raw, &route, None);
    Ok(())
}
