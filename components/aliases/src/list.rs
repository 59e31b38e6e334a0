//! GET `/api/v1/aliases`: lists the caller's aliases.

use latchmail_common::aliases::{self, AliasList};
use latchmail_sdk::capability::{Aliases, Caller};
use latchmail_sdk::{Failure, Reply, Request};

/// List aliases
#[utoipa::path(
    get,
    path = "/api/v1/aliases",
    operation_id = "listAliases",
    tag = "Aliases",
    responses((
        status = 200,
        description = "The aliases",
        body = AliasList,
        links(
            ("updateAlias" = (operation_id = "updateAlias", parameters(("id" = "$response.body#/aliases/0/id")))),
            ("deleteAlias" = (operation_id = "deleteAlias", parameters(("id" = "$response.body#/aliases/0/id"))))
        )
    ))
)]
pub(crate) fn list_aliases(host: &(impl Aliases + Caller), _: &Request) -> Result<Reply, Failure> {
    Reply::json(&aliases::list(host)?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Alias;
    use latchmail_sdk::testing::{FakeHost, NOW, json};

    use super::*;

    #[test]
    fn an_alias_has_only_the_dates_that_are_recorded() {
        let host = FakeHost::new();
        host.put_alias(Alias {
            id: 7,
            address: "a@example.test".into(),
            active: true,
            created_at: Some(NOW),
            modified_at: Some(NOW + 61_000),
            note: "Shop".into(),
            expires_at: Some(NOW + 1),
            last_received_at: Some(NOW),
            received: 3,
        });
        host.put_alias(Alias {
            id: (1 << 53) - 1,
            address: "b@example.test".into(),
            active: false,
            created_at: None,
            modified_at: None,
            note: String::new(),
            expires_at: None,
            last_received_at: None,
            received: 0,
        });
        let expected = serde_json::json!({ "aliases": [
            {
                "id": 7, "address": "a@example.test", "active": true,
                "created": "2026-11-20 08:00:00", "modified": "2026-11-20 08:01:01",
                "note": "Shop", "expiresAt": "2026-11-20T08:00:00.001Z",
                "lastReceivedAt": "2026-11-20T08:00:00.000Z", "received": 3,
            },
            {
                "id": 9_007_199_254_740_991_u64, "address": "b@example.test", "active": false,
                "note": null, "expiresAt": null, "lastReceivedAt": null, "received": 0,
            },
        ] });
        assert_eq!(json(list_aliases(&host, &Request::default())), expected);
    }
}
