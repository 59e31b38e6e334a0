//! `/admin/api/v1/accounts`.

use http::StatusCode;
use latchmail_accounts::auth::provisioning::{
    AccountChanges, AccountToCreate, NewPassword, no_account,
};
use latchmail_core::clock::Timestamp;
use latchmail_directory::accounts::administration::{Names, NamesUpdate, Record};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{self, Change, Paging, changed, flag, if_match, invalid, present, segment};
use super::state::OperatorState;
use crate::app::App;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// The name of the list, to which cursors are bound.
const LIST: &str = "accounts";
/// The fields that a client can send back, and that have no effect.
const READ_ONLY: [&str; 3] = ["id", "createdAt", "deletesAt"];

/// An account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Account {
    /// An opaque id, which never changes.
    id: String,
    /// The address.
    address: String,
    /// The first name.
    first_name: Option<String>,
    /// The last name.
    last_name: Option<String>,
    /// The date of birth, as `YYYY-MM-DD`.
    dob: Option<String>,
    /// Whether the account is active. An account that is not active cannot sign in or receive mail.
    active: bool,
    /// The plan.
    plan: String,
    /// Whether the account has administrator rights.
    admin: bool,
    /// The address to which copies of the account's mail are forwarded.
    forward_to: Option<String>,
    /// The time of creation (RFC 3339).
    created_at: String,
    /// The id of the account at the identity provider, or of another program. It is unique.
    external_id: Option<String>,
    /// The time at which the account is deleted (RFC 3339). `null` if the account is not about to
    /// be deleted.
    deletes_at: Option<String>,
}

impl Account {
    pub(super) fn of(record: &Record) -> Self {
        let names = &record.names;
        let time = |millis| Timestamp::from_millis(millis).to_string();
        Self {
            id: record.id.clone(),
            address: record.address.clone(),
            first_name: names.first_name.clone(),
            last_name: names.last_name.clone(),
            dob: names.dob.clone(),
            active: record.active,
            plan: record.plan.clone(),
            admin: record.admin,
            forward_to: record.forward_to.clone(),
            created_at: time(record.created_at),
            external_id: names.external_id.clone(),
            deletes_at: record.deletes_at.map(time),
        }
    }
}

/// A page of accounts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Accounts {
    /// The accounts.
    accounts: Vec<Account>,
    /// The cursor of the next page, or `null` if this is the last page.
    next_cursor: Option<String>,
}

/// An account to create.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewAccount {
    /// The address, on a platform domain.
    address: String,
    /// The first name.
    #[serde(default)]
    first_name: Option<String>,
    /// The last name.
    #[serde(default)]
    last_name: Option<String>,
    /// The date of birth, as `YYYY-MM-DD`.
    #[serde(default)]
    dob: Option<String>,
    /// Whether the account is active.
    #[serde(default = "yes")]
    #[schema(default = true)]
    active: bool,
    /// The plan. The default is the plan `default`.
    #[serde(default)]
    plan: Option<String>,
    /// Whether the account has administrator rights.
    #[serde(default)]
    admin: bool,
    /// The address to which copies of the account's mail are forwarded.
    #[serde(default)]
    forward_to: Option<String>,
    /// The id of the account in another program.
    #[serde(default)]
    external_id: Option<String>,
    /// The password, 1 to 1024 bytes. Without a password, the user cannot sign in with a password.
    #[serde(default)]
    #[schema(format = "password")]
    password: Option<String>,
    /// The hash of the password, instead of `password`: a PHC string of argon2id, argon2i or
    /// argon2d, also with the prefix of Dovecot, for example `{ARGON2ID}`.
    #[serde(default)]
    password_hash: Option<String>,
}

const fn yes() -> bool {
    true
}

/// The changes of an account. A field that is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChangedAccount {
    /// The new address. The old address becomes an alias of the account.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    address: Option<String>,
    /// The first name. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    first_name: Change<String>,
    /// The last name. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    last_name: Change<String>,
    /// The date of birth. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    dob: Change<String>,
    /// Whether the account is active. Disabling ends all credentials. Enabling cancels a deletion.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    active: Option<bool>,
    /// The plan.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    plan: Option<String>,
    /// Whether the account has administrator rights.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    admin: Option<bool>,
    /// The address to which copies of the account's mail are forwarded. `null` ends the forwarding.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    forward_to: Change<String>,
    /// The id of the account in another program. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    external_id: Change<String>,
    /// The new password. `null` removes the password. Ends web sessions, OAuth grants and API
    /// tokens.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = "password")]
    password: Change<String>,
    /// The hash of the new password, instead of `password`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    password_hash: Option<String>,
}

/// Lists the accounts.
///
/// The accounts are sorted by id. With `address` or `externalId`, the list contains at most one
/// account.
///
/// # Errors
/// Returns 400 if a parameter is invalid.
#[utoipa::path(
    get,
    path = "/admin/api/v1/accounts",
    operation_id = "readAccounts",
    tag = "Accounts",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number of accounts. The default is 100"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
        ("address" = Option<String>, Query, description = "Only the account with this address"),
        ("externalId" = Option<String>, Query, description = "Only the account with this external id"),
        ("active" = Option<bool>, Query, description = "Only accounts in this state"),
    ),
    responses((status = 200, description = "A page of accounts", body = Accounts)),
)]
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let paging = Paging::of(app, request, LIST)?;
    let active = flag(request, "active")?;
    let directory = &app.directory.accounts;
    let filter = (request.query("address"), request.query("externalId"));
    let mut records = match filter {
        (None, None) => {
            let wanted = paging.wanted();
            directory
                .records_after(&paging.after, active, wanted)
                .await?
        }
        (Some(address), None) => {
            let address = address.to_ascii_lowercase();
            let found = directory.record_by_address(&address).await?;
            found.into_iter().collect()
        }
        (None, Some(id)) => {
            let found = directory.record_by_external_id(id).await?;
            found.into_iter().collect()
        }
        (Some(_), Some(_)) => {
            return Err(invalid("address and externalId cannot be combined"));
        }
    };
    let next_cursor = paging.next(app, LIST, &mut records, |record| record.id.clone())?;
    let now = app.clock.now();
    records.retain(|record| {
        record.is_visible(now) && active.is_none_or(|active| active == record.active)
    });
    let accounts = records.iter().map(Account::of).collect();
    let page = Accounts {
        accounts,
        next_cursor,
    };
    message::json(StatusCode::OK, &page)
}

/// Creates an account.
///
/// The account gets no password if the request has neither `password` nor `passwordHash`. If the
/// request is repeated with the same `Idempotency-Key` within 24 hours, no account is created, and
/// the response has the account of the first request.
///
/// # Errors
/// Returns 400 if a value is invalid, and 409 if the address or the external id is taken.
#[utoipa::path(
    post,
    path = "/admin/api/v1/accounts",
    operation_id = "createAccount",
    tag = "Accounts",
    params(("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses")),
    request_body = NewAccount,
    responses(
        (status = 201, description = "The account", body = Account),
        (status = 404, description = "The account of an earlier request with this key was deleted", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The address or the external id is taken, or the key was used for another request", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn create<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let key = request::idempotency_key(request)?;
    let new: NewAccount = request::body(request, &READ_ONLY)?;
    let new = AccountToCreate {
        password: password(new.password.map(Some), new.password_hash)?.unwrap_or(NewPassword::None),
        address: new.address,
        active: new.active,
        plan: new.plan,
        admin: new.admin,
        forward_to: new.forward_to,
        names: Names {
            external_id: new.external_id,
            first_name: new.first_name,
            last_name: new.last_name,
            dob: new.dob,
            ..Names::default()
        },
    };
    let (provisioning, origin) = (&state.app().auth.provisioning, request.origin());
    let record = provisioning.create(new, key.as_ref(), &origin).await?;
    let path = format!("/admin/api/v1/accounts/{}", record.id);
    request::created(&Account::of(&record), &record.version(), &path)
}

/// Shows an account.
///
/// # Errors
/// Returns 404 if there is no such account.
#[utoipa::path(
    get,
    path = "/admin/api/v1/accounts/{id}",
    operation_id = "readAccount",
    tag = "Accounts",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` that the client has"),
    ),
    responses(
        (status = 200, description = "The account", body = Account),
        (status = 304, description = "The client has this version"),
        (status = 404, description = "There is no such account", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn read<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let record = account(state.app(), request).await?;
    request::found(request, &Account::of(&record), &record.version())
}

/// Changes an account.
///
/// All changes of a request are made together, or none.
///
/// # Errors
/// Returns 404 if there is no such account, and 412 if it has changed.
#[utoipa::path(
    patch,
    path = "/admin/api/v1/accounts/{id}",
    operation_id = "updateAccount",
    tag = "Accounts",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the account must have"),
    ),
    request_body = ChangedAccount,
    responses(
        (status = 200, description = "The account", body = Account),
        (status = 404, description = "There is no such account", body = ref("#/components/schemas/Error")),
        (status = 409, description = "An address or the external id is taken, or the account is being deleted", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The account has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn update<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let change: ChangedAccount = request::body(request, &READ_ONLY)?;
    let changes = AccountChanges {
        password: password(change.password, change.password_hash)?,
        address: change.address,
        active: change.active,
        plan: change.plan,
        admin: change.admin,
        forward_to: change.forward_to,
        names: NamesUpdate {
            external_id: change.external_id,
            first_name: change.first_name,
            last_name: change.last_name,
            dob: change.dob,
            ..NamesUpdate::default()
        },
    };
    let record = apply(state.app(), request, changes).await?;
    request::object(&Account::of(&record), &record.version())
}

/// Disables or deletes an account.
///
/// Disables the account, which ends all its credentials. With `purge=true`, also deletes the
/// account with its mail. Its addresses stay reserved.
///
/// # Errors
/// Returns 404 if there is no such account, and 412 if it has changed.
#[utoipa::path(
    delete,
    path = "/admin/api/v1/accounts/{id}",
    operation_id = "deleteAccount",
    tag = "Accounts",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("purge" = Option<bool>, Query, description = "Whether the account is deleted"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the account must have"),
    ),
    responses(
        (status = 200, description = "The account is disabled or deleted", body = inline(Success)),
        (status = 403, description = "The mail server has the user, so the account cannot be deleted here", body = ref("#/components/schemas/Error")),
        (status = 404, description = "There is no such account", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The account has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn delete<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let purge = flag(request, "purge")?.unwrap_or(false);
    if purge {
        let address = account(app, request).await?.address;
        app.auth.provisioning.rules.check_managed_here(&address)?;
    }
    let changes = AccountChanges {
        active: Some(false),
        ..AccountChanges::default()
    };
    let record = apply(app, request, changes).await?;
    if purge {
        let origin = request.origin();
        app.auth
            .provisioning
            .close(&record.id, true, &origin)
            .await?;
        app.removals.ensure(&record.id).await;
    }
    message::success()
}

/// Makes changes that depend on `If-Match`.
async fn apply(app: &App, request: &Request, changes: AccountChanges) -> Result<Record, Rejection> {
    let versions = if_match(request);
    let provisioning = &app.auth.provisioning;
    let updated = provisioning
        .update(
            segment(request, "id"),
            changes,
            versions.as_deref(),
            &request.origin(),
        )
        .await?;
    let updated = updated.ok_or_else(|| changed("account"))?;
    Ok(updated.after)
}

/// Returns the account whose id is in the path.
///
/// # Errors
/// Returns 404 if there is no such account.
pub(super) async fn account(app: &App, request: &Request) -> Result<Record, Rejection> {
    let found = app
        .directory
        .accounts
        .record(segment(request, "id"))
        .await?;
    let found = found.filter(|record| record.is_visible(app.clock.now()));
    Ok(found.ok_or_else(no_account)?)
}

/// Returns the password of a request. `null` means no password.
fn password(plain: Change<String>, hash: Option<String>) -> Result<Option<NewPassword>, Rejection> {
    match (plain, hash) {
        (Some(_), Some(_)) => Err(invalid("password and passwordHash cannot be combined")),
        (Some(Some(password)), None) => Ok(Some(NewPassword::Plain(password.into()))),
        (Some(None), None) => Ok(Some(NewPassword::None)),
        (None, Some(hash)) => Ok(Some(NewPassword::Hash(hash))),
        (None, None) => Ok(None),
    }
}
