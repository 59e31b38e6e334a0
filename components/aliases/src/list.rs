//! GET `/api/v1/aliases`: the caller's aliases.

use latchmail_sdk::capability::{self, Aliases, Caller};
use latchmail_sdk::time::sql;
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::MISSING;

/// A further address.
#[derive(Serialize, ToSchema)]
pub(crate) struct Alias {
    /// Derived from the address: the same as long as the alias exists.
    // With a point, because utoipa keeps whole numbers as `usize`, which has 32 bits in the sandbox.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    id: u64,
    /// The address, in lower case.
    #[schema(format = Email)]
    address: String,
    /// Whether it delivers and may be used as a sender.
    active: bool,
    /// When it was made, `YYYY-MM-DD HH:MM:SS` in UTC; absent for one that the service never saw being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-20 08:00:00")]
    created: Option<String>,
    /// When it was last changed, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-20 08:00:00")]
    modified: Option<String>,
}

impl From<capability::Alias> for Alias {
    fn from(alias: capability::Alias) -> Self {
        Self {
            id: alias.id,
            address: alias.address,
            active: alias.active,
            created: alias.created_at.map(sql),
            modified: alias.modified_at.map(sql),
        }
    }
}

/// The aliases of an account.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasList {
    /// By address, inactive ones among them.
    aliases: Vec<Alias>,
}

/// List aliases
#[utoipa::path(
    get,
    path = "/api/v1/aliases",
    operation_id = "listAliases",
    tag = "Aliases",
    responses((status = 200, description = "The aliases", body = AliasList))
)]
pub(crate) fn list_aliases(host: &(impl Aliases + Caller), _: &Request) -> Result<Reply, Failure> {
    let aliases = host
        .list_aliases()
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::json(&AliasList {
        aliases: aliases.into_iter().map(Alias::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeHost, NOW, alias, json};

    #[test]
    fn an_alias_is_answered_with_the_dates_that_are_known() {
        let host = FakeHost {
            aliases: vec![
                capability::Alias {
                    created_at: Some(NOW),
                    modified_at: Some(NOW + 61_000),
                    ..alias(7, "a@example.test")
                },
                capability::Alias {
                    active: false,
                    ..alias((1 << 53) - 1, "b@example.test")
                },
            ],
            ..FakeHost::default()
        };
        let expected = serde_json::json!({ "aliases": [
            {
                "id": 7, "address": "a@example.test", "active": true,
                "created": "2026-11-20 08:00:00", "modified": "2026-11-20 08:01:01",
            },
            { "id": 9_007_199_254_740_991_u64, "address": "b@example.test", "active": false },
        ] });
        assert_eq!(json(list_aliases(&host, &Request::default())), expected);
    }
}
