//! PATCH and DELETE `/api/v1/aliases/{id}`: changes or deletes an alias.

use latchmail_common::aliases::ChangedAlias;
use latchmail_sdk::capability::{Aliases, Caller, Expiry};
use latchmail_sdk::time::rfc3339;
use latchmail_sdk::{Failure, Reply, Request, capability, codes};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::MISSING;

/// Maximum length of a note, in characters.
const MAX_NOTE: usize = 200;

/// The changes of an alias. At least one field is required. A field that is absent stays as it is.
#[derive(ToSchema)]
#[schema(min_properties = 1)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct AliasChange {
    /// Whether the alias receives mail and can be used as a sender.
    #[schema(nullable = false)]
    active: Option<bool>,
    /// A note for the owner, without control characters. `null` or an empty text removes the note.
    #[schema(max_length = 200, extensions(("x-latchmail" = json!(true))))]
    note: Option<String>,
    /// The time from which the alias receives no mail and cannot be used as a sender (RFC 3339).
    /// `null` if the alias does not expire. A time in the past is allowed.
    #[schema(rename = "expiresAt", format = DateTime, extensions(("x-latchmail" = json!(true))))]
    expires_at: Option<String>,
}

/// Change an alias
///
/// An inactive or expired alias receives no mail and cannot be used as a sender. The alias still
/// belongs to the account: it can be enabled again, and its expiry can be changed.
#[utoipa::path(
    patch,
    path = "/api/v1/aliases/{id}",
    operation_id = "updateAlias",
    tag = "Aliases",
    params(("id" = u64, Path, minimum = 1, maximum = 9_007_199_254_740_991.0, description = "The alias's id")),
    request_body = AliasChange,
    responses(
        (status = 200, description = "The alias was changed", body = ChangedAlias),
        (status = 400, description = "`Invalid alias ID`, `active (boolean) is required`, or a text that names `note` or `expiresAt`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Alias not found or not owned by you`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn update_alias(
    host: &(impl Aliases + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let id = named(request)?;
    let alias = host
        .update_alias(id, &change(request)?)
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Reply::json(&ChangedAlias::from(alias))
}

/// Returns the changes in the body. A body without a known field has the same error as an invalid
/// `active`, which was the only field of the first version of this route.
fn change(request: &Request) -> Result<capability::AliasChange, Failure> {
    let required = || Failure::bad_request(codes::ACTIVE_REQUIRED, "active (boolean) is required");
    let body: Map<String, Value> = request.json().map_err(|_| required())?;
    let fields = ["active", "note", "expiresAt"].map(|name| body.get(name));
    let [active, note, expires_at] = fields;
    let active = match active {
        None if note.is_none() && expires_at.is_none() => return Err(required()),
        None => None,
        Some(active) => Some(active.as_bool().ok_or_else(required)?),
    };
    let note = match note {
        None => None,
        Some(Value::Null) => Some(String::new()),
        Some(Value::String(note))
            if note.chars().count() <= MAX_NOTE && !note.chars().any(char::is_control) =>
        {
            Some(note.clone())
        }
        Some(_) => {
            return Err(Failure::bad_request(
                codes::INVALID_ALIAS_NOTE,
                "note must be at most 200 characters without control characters",
            ));
        }
    };
    let expiry = match expires_at {
        None => None,
        Some(Value::Null) => Some(Expiry::Never),
        Some(at) => {
            let at = at.as_str().and_then(rfc3339).ok_or_else(|| {
                let text = "expiresAt must be a time such as 2026-11-20T08:00:00Z";
                Failure::bad_request(codes::INVALID_EXPIRY, text)
            })?;
            Some(Expiry::At(at))
        }
    };
    Ok(capability::AliasChange {
        active,
        note,
        expiry,
    })
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
            let changed = json(update_alias(&host, &with_id(&id, body)));
            assert_eq!(changed["success"], true);
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
    fn a_note_and_an_expiry_are_changed_without_the_state() {
        let host = FakeHost::new();
        let id = host.create_alias("shop", "example.test").unwrap().id;
        let id = id.to_string();
        let body = r#"{"note": "Übung", "expiresAt": "2026-11-20T09:00:00+01:00"}"#;
        let expected = serde_json::json!({
            "success": true, "note": "Übung", "expiresAt": "2026-11-20T08:00:00.000Z",
            "lastReceivedAt": null, "received": 0,
        });
        assert_eq!(json(update_alias(&host, &with_id(&id, body))), expected);
        assert!(host.list_aliases().unwrap()[0].active);
        let none = r#"{"active": false, "note": null, "expiresAt": null}"#;
        let changed = json(update_alias(&host, &with_id(&id, none)));
        assert_eq!(
            (&changed["note"], &changed["expiresAt"]),
            (&Value::Null, &Value::Null)
        );
        assert!(!host.list_aliases().unwrap()[0].active);
    }

    #[test]
    fn an_invalid_note_or_expiry_changes_nothing() {
        let host = FakeHost::new();
        let long = format!(r#"{{"active": false, "note": "{}"}}"#, "ä".repeat(201));
        for body in [
            &long,
            r#"{"note": 7}"#,
            r#"{"note": "a\nb"}"#,
            r#"{"expiresAt": 7}"#,
            r#"{"expiresAt": "tomorrow"}"#,
            r#"{"expiresAt": "2026-02-30T08:00:00Z"}"#,
        ] {
            let refused = update_alias(&host, &with_id("7", body)).unwrap_err();
            let field = if body.contains("note") {
                "note"
            } else {
                "expiresAt"
            };
            assert_eq!(refused.status, 400);
            assert!(
                refused.text.starts_with(&format!("{field} must ")),
                "{body}"
            );
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
