//! `/admin/api/v1/aliases`: the aliases of all accounts. The id of an alias is its address.

use http::StatusCode;
use latchmail_accounts::aliases::AliasUpdate;
use latchmail_accounts::auth::provisioning::no_account;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::accounts::administration::Record;
use latchmail_directory::aliases::operator::OwnedAlias;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{self, Change, Paging, changed, if_match, invalid, present, segment};
use super::state::OperatorState;
use crate::app::App;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// The name of the list, to which cursors are bound.
const LIST: &str = "aliases";
/// The fields that a client can send back, and that have no effect.
const READ_ONLY: [&str; 5] = ["id", "accountId", "createdAt", "lastReceivedAt", "received"];

/// An alias.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnedAlias)]
struct Alias {
    /// The id, which is the address.
    id: String,
    /// The address.
    address: String,
    /// The address of the account.
    account: String,
    /// The id of the account.
    account_id: String,
    /// Whether the alias receives mail and the account may send from it.
    active: bool,
    /// The note of the owner.
    note: Option<String>,
    /// The time from which the alias receives no mail (RFC 3339).
    expires_at: Option<String>,
    /// The time of creation (RFC 3339). `null` if another program created the alias.
    created_at: Option<String>,
    /// The time at which the alias last received mail (RFC 3339).
    last_received_at: Option<String>,
    /// The number of messages that the alias received.
    received: u64,
}

impl From<OwnedAlias> for Alias {
    fn from(owned: OwnedAlias) -> Self {
        let alias = owned.alias;
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            id: alias.address.clone(),
            address: alias.address,
            account: owned.account,
            account_id: owned.account_id,
            active: alias.active,
            note: Some(alias.note).filter(|note| !note.is_empty()),
            expires_at: time(alias.expires_at),
            created_at: time(alias.created_at),
            last_received_at: time(alias.last_received_at),
            received: alias.received,
        }
    }
}

/// A page of aliases.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnedAliases)]
struct Aliases {
    /// The aliases.
    aliases: Vec<Alias>,
    /// The cursor of the next page, or `null` if this is the last page.
    next_cursor: Option<String>,
}

/// An alias to create.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewOwnedAlias)]
struct NewAlias {
    /// The address, on a platform domain or on a domain that the account has verified.
    address: String,
    /// The address or the id of the account.
    account: String,
    /// Whether the alias receives mail.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    active: Option<bool>,
    /// A note for the owner, at most 200 characters.
    #[serde(default)]
    note: Option<String>,
    /// The time from which the alias receives no mail (RFC 3339).
    #[serde(default)]
    expires_at: Option<String>,
}

/// The changes of an alias. A field that is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ChangedOwnedAlias)]
struct ChangedAlias {
    /// The address, which cannot be changed.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    address: Option<String>,
    /// The account, which cannot be changed.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    account: Option<String>,
    /// Whether the alias receives mail.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    active: Option<bool>,
    /// A note for the owner. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    note: Change<String>,
    /// The time from which the alias receives no mail. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    expires_at: Change<String>,
}

/// Lists the aliases.
///
/// # Errors
/// Returns 400 if a parameter is invalid, and 404 if there is no such account.
#[utoipa::path(
    get,
    path = "/admin/api/v1/aliases",
    operation_id = "readAliases",
    tag = "Aliases",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number of aliases. The default is 100"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
        ("account" = Option<String>, Query, description = "Only aliases of the account with this address or id"),
    ),
    responses(
        (status = 200, description = "A page of aliases", body = Aliases),
        (status = 404, description = "There is no such account", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let paging = Paging::of(app, request, LIST)?;
    let account = match request.query("account") {
        Some(account) => Some(account_of(app, account).await?.id),
        None => None,
    };
    let aliases = &app.aliases;
    let wanted = aliases.owned_after(&paging.after, account.as_deref(), paging.wanted());
    let mut found = wanted.await?;
    let position = |owned: &OwnedAlias| owned.alias.address.clone();
    let next_cursor = paging.next(app, LIST, &mut found, position)?;
    let page = Aliases {
        aliases: found.into_iter().map(Alias::from).collect(),
        next_cursor,
    };
    message::json(StatusCode::OK, &page)
}

/// Creates an alias.
///
/// If the request is repeated with the same `Idempotency-Key` within 24 hours, nothing is changed.
///
/// # Errors
/// Returns 400 if a value is invalid, 404 if there is no such account, and 409 if the address is
/// taken.
#[utoipa::path(
    post,
    path = "/admin/api/v1/aliases",
    operation_id = "createAlias",
    tag = "Aliases",
    params(("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses")),
    request_body = NewAlias,
    responses(
        (status = 201, description = "The alias", body = Alias),
        (status = 404, description = "There is no such account, or the alias of an earlier request with this key was deleted", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The address is taken, the account has too many aliases, or the key was used for another request", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn create<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let key = request::idempotency_key(request)?;
    let new: NewAlias = request::body(request, &READ_ONLY)?;
    let account = account_of(app, &new.account).await?;
    let settings = AliasUpdate {
        active: new.active,
        note: new.note,
        expires_at: expiry(new.expires_at.map(Some))?,
    };
    let aliases = &app.aliases;
    let (id, origin) = (&account.id, request.origin());
    let created = aliases.create_owned(id, &new.address, &settings, key.as_ref(), &origin);
    let owned = created.await?;
    let version = owned.version();
    let path = format!("/admin/api/v1/aliases/{}", owned.alias.address);
    request::created(&Alias::from(owned), &version, &path)
}

/// Shows an alias.
///
/// # Errors
/// Returns 404 if there is no such alias.
#[utoipa::path(
    get,
    path = "/admin/api/v1/aliases/{id}",
    operation_id = "readAlias",
    tag = "Aliases",
    params(
        ("id" = String, Path, description = "The address of the alias"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` that the client has"),
    ),
    responses(
        (status = 200, description = "The alias", body = Alias),
        (status = 304, description = "The client has this version"),
        (status = 404, description = "There is no such alias", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn read<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let owned = alias(state.app(), request).await?;
    let version = owned.version();
    request::found(request, &Alias::from(owned), &version)
}

/// Changes an alias.
///
/// # Errors
/// Returns 404 if there is no such alias, and 412 if it has changed.
#[utoipa::path(
    patch,
    path = "/admin/api/v1/aliases/{id}",
    operation_id = "updateAlias",
    tag = "Aliases",
    params(
        ("id" = String, Path, description = "The address of the alias"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the alias must have"),
    ),
    request_body = ChangedAlias,
    responses(
        (status = 200, description = "The alias", body = Alias),
        (status = 404, description = "There is no such alias", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The alias has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn update<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let change: ChangedAlias = request::body(request, &READ_ONLY)?;
    let before = alias(app, request).await?;
    let is_other = |value: Option<&String>, current: [&String; 2]| {
        value.is_some_and(|value| !current.contains(&value))
    };
    let address = &before.alias.address;
    if is_other(change.address.as_ref(), [address, address]) {
        return Err(invalid("address cannot be changed"));
    }
    if is_other(
        change.account.as_ref(),
        [&before.account, &before.account_id],
    ) {
        return Err(invalid("account cannot be changed"));
    }
    let update = AliasUpdate {
        active: change.active,
        note: change.note.map(Option::unwrap_or_default),
        expires_at: expiry(change.expires_at)?,
    };
    let (versions, origin) = (if_match(request), request.origin());
    let aliases = &app.aliases;
    let updated = aliases.update_owned(address, &update, versions.as_deref(), &origin);
    let owned = updated.await?.ok_or_else(|| changed("alias"))?;
    let version = owned.version();
    request::object(&Alias::from(owned), &version)
}

/// Deletes an alias.
///
/// On a platform domain, the address stays reserved for the account.
///
/// # Errors
/// Returns 404 if there is no such alias, and 412 if it has changed.
#[utoipa::path(
    delete,
    path = "/admin/api/v1/aliases/{id}",
    operation_id = "deleteAlias",
    tag = "Aliases",
    params(
        ("id" = String, Path, description = "The address of the alias"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the alias must have"),
    ),
    responses(
        (status = 200, description = "The alias is deleted", body = inline(Success)),
        (status = 404, description = "There is no such alias", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The alias has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn delete<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let aliases = &state.app().aliases;
    let (versions, origin) = (if_match(request), request.origin());
    let deleted = aliases.delete_owned(segment(request, "id"), versions.as_deref(), &origin);
    deleted.await?.ok_or_else(|| changed("alias"))?;
    message::success()
}

/// Returns the alias whose address is in the path.
async fn alias(app: &App, request: &Request) -> Result<OwnedAlias, Rejection> {
    let aliases = &app.aliases;
    let found = aliases.owned(segment(request, "id")).await?;
    Ok(
        found
            .ok_or_else(|| Failure::not_found(codes::ALIAS_NOT_FOUND, "There is no such alias"))?,
    )
}

/// Returns the account with this address or id.
async fn account_of(app: &App, text: &str) -> Result<Record, Rejection> {
    // PostgreSQL cannot compare texts with NUL.
    if text.contains('\0') {
        return Err(no_account().into());
    }
    let accounts = &app.directory.accounts;
    let found = if text.contains('@') {
        accounts
            .record_by_address(&text.to_ascii_lowercase())
            .await?
    } else {
        accounts.record(text).await?
    };
    let found = found.filter(|record| record.is_visible(app.clock.now()));
    Ok(found.ok_or_else(no_account)?)
}

/// Parses the time of an expiry.
fn expiry(given: Change<String>) -> Result<Change<Timestamp>, Rejection> {
    let text = match given {
        None => return Ok(None),
        Some(None) => return Ok(Some(None)),
        Some(Some(text)) => text,
    };
    let at = Timestamp::from_rfc3339(&text).ok_or_else(|| {
        let text = "expiresAt must be a time such as 2026-11-20T08:00:00Z";
        Rejection::bad_request(codes::INVALID_EXPIRY, text)
    })?;
    Ok(Some(Some(at)))
}
