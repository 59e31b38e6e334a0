//! Limits the fields of the messages in a list, and reports suspicious text.

use latchmail_common::{Address, Summary};

use super::bounds::Bounds;
use crate::hidden::InvisibleCharacters;

/// Limits the fields of each message. Returns warnings about shortened fields and invisible characters.
pub(super) fn bounded(messages: &mut [Summary]) -> Vec<String> {
    let of = |summary: &mut Summary| {
        let message = format!("Message {}", summary.headline.uid);
        let mut bounds = Bounds::default();
        bounds.summary(summary);
        let mut warnings = Vec::from_iter(bounds.warning(&message));
        warnings.extend(invisible_characters(summary).warnings(&message));
        warnings
    };
    messages.iter_mut().flat_map(of).collect()
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
