//! Compares a search of the inbox with SEARCH and the FETCH of the shown page.

use anyhow::Context as _;

use crate::measure::{Call, Size, both};
use crate::report::Report;
use crate::routes::{SUMMARY, routed};
use crate::service::Service;

/// A sender name that a few percent of the messages have, which is more than a page of them in the whole inbox. No body contains it, so all
/// other messages are read completely.
const TERM: &str = "sender17";

/// Number of messages on a page.
const PAGE: usize = 50;

/// Maximum number of turns of each side: a search of 10,000 messages takes the mail server about a second. There is no row with several
/// clients, because it would measure the number of cores of the mail server.
const ROUNDS: usize = 3;

/// Measures the search.
pub(crate) fn measure(service: &Service, size: &Size, report: &mut Report) -> anyhow::Result<()> {
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
    let shown = found["messages"].as_array().context("no messages")?.len();
    anyhow::ensure!(shown == expected.min(PAGE), "{shown} messages are shown");

    let mut left: [Call<'_>; 1] = [Box::new(move || {
        let found = imap.search(&criteria)?;
        anyhow::ensure!(
            found.len() == expected,
            "{} messages instead of {expected}",
            found.len()
        );
        let newest: Vec<String> = found[expected.saturating_sub(PAGE)..]
            .iter()
            .map(ToString::to_string)
            .collect();
        imap.run(&format!("UID FETCH {} {SUMMARY}", newest.join(",")))?;
        Ok(())
    })];
    let mut right = routed(service, &path, 1, 0)?;
    let few = Size {
        rounds: size.rounds.min(ROUNDS),
        ..*size
    };
    let [raw, route] = both(&few, &mut left, &mut right)?;
    let name = format!("search of {}", size.messages);
    report.latency(&name, &raw, &route, None);
    Ok(())
}
