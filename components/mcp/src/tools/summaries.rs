//! The messages of a list: limits their fields and reports suspicious text.

use latchmail_common::{Address, Summary};

use super::bounds::Bounds;
use crate::hidden::Oddities;

/// Limits the fields of each message. Returns a warning for each message that was cut and for each suspicious text.
pub(super) fn bounded(messages: &mut [Summary]) -> Vec<String> {
    let of = |summary: &mut Summary| {
        let message = format!("Message {}", summary.headline.uid);
        let mut bounds = Bounds::default();
        bounds.summary(summary);
        let mut warnings = Vec::from_iter(bounds.warning(&message));
        warnings.extend(oddities(summary).warnings(&message));
        warnings
    };
    messages.iter_mut().flat_map(of).collect()
}

fn oddities(summary: &Summary) -> Oddities {
    let headline = &summary.headline;
    let mut oddities = Oddities::default();
    oddities.look("subject", &headline.subject);
    names(&mut oddities, "from", &headline.from);
    names(&mut oddities, "to", &headline.to);
    for flag in &headline.flags {
        oddities.look("flags", flag);
    }
    oddities.look("preview", &summary.preview);
    oddities
}

/// Scans names and addresses for invisible characters.
pub(super) fn names(oddities: &mut Oddities, part: &'static str, addresses: &[Address]) {
    for one in addresses {
        oddities.look(part, &one.name);
        oddities.look(part, &one.address);
    }
}
