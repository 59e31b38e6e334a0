//! Limits the fields of the messages in a list, and reports suspicious text.

use latchmail_common::threads::Thread;
use latchmail_common::{Address, FoundMessage, Summary};

use super::bounds::Bounds;
use crate::hidden::InvisibleCharacters;

/// Limits the fields of each message. Returns warnings about shortened fields and invisible
/// characters.
pub(super) fn bounded(messages: &mut [Summary]) -> Vec<String> {
    let warnings = |summary: &mut Summary| {
        let bounds = bounded_summary(summary);
        warnings(summary, &bounds, &invisible_characters(summary))
    };
    messages.iter_mut().flat_map(warnings).collect()
}

/// Limits the fields of each message in a search result. Returns warnings about shortened fields
/// and invisible characters.
pub(super) fn bounded_hits(messages: &mut [FoundMessage]) -> Vec<String> {
    let warnings = |hit: &mut FoundMessage| {
        let mut bounds = bounded_summary(&mut hit.summary);
        let mut invisible_characters = invisible_characters(&hit.summary);
        if let Some(snippet) = &mut hit.snippet {
            bounds.snippet(snippet);
            invisible_characters.scan("snippet", &snippet.text);
        }
        warnings(&hit.summary, &bounds, &invisible_characters)
    };
    messages.iter_mut().flat_map(warnings).collect()
}

/// Limits the fields of each thread. Returns warnings about shortened fields and invisible
/// characters.
pub(super) fn bounded_threads(threads: &mut [Thread]) -> Vec<String> {
    let warnings = |thread: &mut Thread| {
        let mut bounds = bounded_summary(&mut thread.newest.summary);
        bounds.thread(thread);
        let mut invisible_characters = invisible_characters(&thread.newest.summary);
        invisible_characters.scan("subject", &thread.subject);
        names(
            &mut invisible_characters,
            "participants",
            &thread.participants,
        );
        warnings(&thread.newest.summary, &bounds, &invisible_characters)
    };
    threads.iter_mut().flat_map(warnings).collect()
}

fn bounded_summary(summary: &mut Summary) -> Bounds {
    let mut bounds = Bounds::default();
    bounds.summary(summary);
    bounds
}

fn warnings(
    summary: &Summary,
    bounds: &Bounds,
    invisible_characters: &InvisibleCharacters,
) -> Vec<String> {
    let message = format!("Message {}", summary.headline.uid);
    let mut warnings = Vec::from_iter(bounds.warning(&message));
    warnings.extend(invisible_characters.warnings(&message));
    warnings
}

fn invisible_characters(summary: &Summary) -> InvisibleCharacters {
    let headline = &summary.headline;
    let mut invisible_characters = InvisibleCharacters::default();
    invisible_characters.scan("subject", &headline.subject);
    names(&mut invisible_characters, "from", &headline.from);
    names(&mut invisible_characters, "to", &headline.to);
    for flag in &headline.flags {
        invisible_characters.scan("flags", flag);
    }
    invisible_characters.scan("preview", &summary.preview);
    invisible_characters
}

/// Scans names and addresses for invisible characters.
pub(super) fn names(
    invisible_characters: &mut InvisibleCharacters,
    part: &'static str,
    addresses: &[Address],
) {
    for one in addresses {
        invisible_characters.scan(part, &one.name);
        invisible_characters.scan(part, &one.address);
    }
}
