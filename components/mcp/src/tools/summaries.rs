//! The messages of a list: what has room of each, and what is odd about it.

use latchmail_common::{Address, Summary};

use super::bounds::Bounds;
use crate::hidden::Oddities;

/// Bounds each message; answers a sentence for each that was cut, and for each oddity of each.
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

/// Looks at names and addresses.
pub(super) fn names(oddities: &mut Oddities, part: &'static str, addresses: &[Address]) {
    for one in addresses {
        oddities.look(part, &one.name);
        oddities.look(part, &one.address);
    }
}
