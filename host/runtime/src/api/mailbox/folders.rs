//! Conversions for the functions that change folders, and for the quota.

use latchmail_bindings::latchmail::host::mailbox as wit;
use latchmail_mailbox::{Disposal, Quota, ResourceUsage};

pub(super) fn disposal(messages: wit::MessageDisposal) -> Option<Disposal> {
    match messages {
        wit::MessageDisposal::Refuse => None,
        wit::MessageDisposal::Trash => Some(Disposal::Trash),
        wit::MessageDisposal::Delete => Some(Disposal::Delete),
    }
}

pub(super) fn quota(quota: Quota) -> wit::Quota {
    wit::Quota {
        storage: usage(quota.storage),
        messages: usage(quota.messages),
    }
}

fn usage(usage: Option<ResourceUsage>) -> wit::QuotaUsage {
    wit::QuotaUsage {
        used: usage.map(|usage| usage.used),
        limit: usage.map(|usage| usage.limit),
    }
}
