//! GET `/api/v1/mail/quota`: returns the quota of the mailbox.

use latchmail_sdk::capability::{self, Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Serialize;
use utoipa::ToSchema;

/// The use and the limit of a resource of the mailbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct QuotaUsage {
    /// The used amount. `null` if the mail server does not report the amount, for example because
    /// there is no limit.
    #[schema(required)]
    used: Option<u64>,
    /// The limit. `null` if there is no limit.
    #[schema(required)]
    limit: Option<u64>,
}

impl From<capability::QuotaUsage> for QuotaUsage {
    fn from(usage: capability::QuotaUsage) -> Self {
        Self {
            used: usage.used,
            limit: usage.limit,
        }
    }
}

/// The quota of the mailbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct Quota {
    /// The size of all messages in bytes.
    storage: QuotaUsage,
    /// The number of all messages.
    messages: QuotaUsage,
}

/// Get the quota
///
/// Returns how much of the mailbox is used, as the mail server reports it. A request that would
/// exceed a limit fails with status 507 and `The mailbox is full`. A member of a shared mailbox
/// needs the right `mail:read` on the whole mailbox.
#[utoipa::path(
    get,
    path = "/api/v1/mail/quota",
    operation_id = "getQuota",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "The quota", body = Quota))
)]
pub(crate) fn get_quota(host: &(impl Mailbox + Caller), _: &Request) -> Result<Reply, Failure> {
    let quota = host.get_quota();
    let quota = quota.map_err(|error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host))?;
    Reply::json(&Quota {
        storage: quota.storage.into(),
        messages: quota.messages.into(),
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::testing::{FakeHost, json};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_without_a_limit_is_null() {
        let host = FakeHost::new();
        let none = json!({ "used": null, "limit": null });
        let quota = json(get_quota(&host, &Request::default()));
        assert_eq!(quota, json!({ "storage": none, "messages": none }));
        host.set_mailbox_quota(capability::Quota {
            storage: capability::QuotaUsage {
                used: Some(2048),
                limit: Some(1_048_576),
            },
            messages: capability::QuotaUsage {
                used: Some(1),
                limit: None,
            },
        });
        let quota = json(get_quota(&host, &Request::default()));
        assert_eq!(
            quota["storage"],
            json!({ "used": 2048, "limit": 1_048_576 })
        );
        assert_eq!(quota["messages"], json!({ "used": 1, "limit": null }));
    }

    #[test]
    fn a_full_mailbox_has_status_507() {
        let host = FakeHost::failing(Error::OverQuota);
        let full = get_quota(&host, &Request::default()).unwrap_err();
        assert_eq!((full.status, &*full.text), (507, "The mailbox is full"));
    }
}
