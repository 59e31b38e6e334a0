//! PATCH and DELETE `/api/v1/aliases/{id}`: activates, deactivates or deletes an alias.

use latchmail_sdk::capability::{Aliases, Caller};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::MISSING;

/// The new state of an alias.
#[derive(Deserialize, ToSchema)]
pub(crate) struct AliasChange {
    /// Whether the alias receives mail and can be used as a sender.
    active: bool,
}

/// Enable or disable an alias
///
/// An inactive alias receives no mail and cannot be used as a sender. The alias still belongs to
/// the account.
#[utoipa::path(
    patch,
    path = "/api/v1/aliases/{id}",
    operation_id = "updateAlias",
    tag = "Aliases",
    params(("id" = u64, Path, minimum = 1, maximum = 9_007_199_254_740_991.0, description = "The alias's id")),
    request_body = AliasChange,
    responses(
        (status = 200, description = "The alias was changed", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid alias ID`, `active (boolean) is required`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Alias not found or not owned by you`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn update_alias(
    host: &(impl Aliases + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let id = named(request)?;
    let body: AliasChange = request.json().map_err(|_| {
        Failure::bad_request(codes::ACTIVE_REQUIRED, "active (boolean) is required")
    })?;
    host.set_alias_active(id, body.active)
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::success()
}

/// Delete an alias
///
/// A deleted alias receives no mail and cannot be used as a sender. Mail that was already delivered
/// stays in the mailbox. No other account can use the address.
#[utoipa::path(
    delete,
    path = "/api/v1/aliases/{id}",
    operation_id = "deleteAlias",
    tag = "Aliases",
    params(("id" = u64, Path, minimum = 1, maximum = 9_007_199_254_740_991.0, description = "The alias's id")),
    responses(
        (status = 200, description = "The alias was deleted", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid alias ID`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Alias not found or not owned by you`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_alias(
    host: &(impl Aliases + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    host.delete_alias(named(request)?)
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::success()
}

/// Returns the alias id in the path. Returns 400 unless the id is from 1 to 2^53 - 1, because all
/// ids of aliases are in this range.
fn named(request: &Request) -> Result<u64, Failure> {
    request
        .path_number::<u64>("id")
        .filter(|id| (1..1 << 53).contains(id))
        .ok_or(Failure::bad_request(
            codes::INVALID_ALIAS_ID,
            "Invalid alias ID",
        ))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Error;
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn with_id(id: &str, body: &str) -> Request {
        request(&[("id", id)], &[], body)
    }

    #[test]
    fn an_alias_is_enabled_disabled_and_deleted_by_its_id() {
        let host = FakeHost::new();
        let id = host
            .create_alias("shop", "example.test")
            .unwrap()
            .id
            .to_string();
        let success = serde_json::json!({ "success": true });
        for (active, body) in [
            (false, r#"{"active": false}"#),
            (true, r#"{"active": true, "other": 1}"#),
        ] {
            assert_eq!(json(update_alias(&host, &with_id(&id, body))), success);
            assert_eq!(host.list_aliases().unwrap()[0].active, active);
        }
        assert_eq!(json(delete_alias(&host, &with_id(&id, ""))), success);
        assert!(host.list_aliases().unwrap().is_empty());
    }

    #[test]
    fn an_invalid_id_is_refused() {
        let host = FakeHost::new();
        for id in [
            "",
            "0",
            "-1",
            "+1",
            "1.5",
            "x",
            "7x",
            "9007199254740992",
            "99999999999999999999",
        ] {
            let refused = delete_alias(&host, &with_id(id, "")).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::INVALID_ALIAS_ID, "Invalid alias ID"),
                "{id}"
            );
            let refused = update_alias(&host, &with_id(id, r#"{"active": true}"#)).unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::INVALID_ALIAS_ID, "Invalid alias ID"),
                "{id}"
            );
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_change_needs_the_new_state() {
        let host = FakeHost::new();
        for body in [
            "",
            "{}",
            "true",
            "[true]",
            r#"{"active": null}"#,
            r#"{"active": "true"}"#,
            r#"{"active": 1}"#,
        ] {
            let refused = update_alias(&host, &with_id("7", body)).unwrap_err();
            let text = "active (boolean) is required";
            assert_eq!(refused, failure(400, text), "{body}");
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn an_alias_of_another_account_is_not_found() {
        let host = FakeHost::failing(Error::NotFound);
        for refused in [
            update_alias(&host, &with_id("7", r#"{"active": true}"#)),
            delete_alias(&host, &with_id("7", "")),
        ] {
            assert_eq!(
                refused.unwrap_err(),
                Failure::not_found(MISSING.0, MISSING.1)
            );
        }
    }
}
