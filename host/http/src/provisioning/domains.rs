//! `/admin/api/v1/domains`: the platform domains. Custom domains belong to the accounts that have
//! verified them.

use http::StatusCode;
use latchmail_core::address;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::secrets::sha256_hex;
use latchmail_directory::domains::platform_domains::{Created, PlatformDomain, Removed};
use latchmail_directory::routes::domain_settings::DomainSettings;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{self, Change, Paging, changed, check_version, invalid, present, segment};
use super::state::OperatorState;
use crate::app::App;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// The name of the list, to which cursors are bound.
const LIST: &str = "domains";
/// The fields that a client can send back, and that have no effect.
const READ_ONLY: [&str; 1] = ["configured"];
/// The number of attempts to change settings that other requests change at the same time.
const ATTEMPTS: usize = 5;

/// A platform domain.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlatformDomain)]
struct Domain {
    /// The name, in lower case and ASCII.
    #[serde(rename = "domain")]
    name: String,
    /// An address of the account that receives mail for unknown addresses. `null` if such mail is
    /// refused.
    catch_all: Option<String>,
    /// The character before the extension of an address. `null` if addresses have no extensions.
    separator: Option<String>,
    /// Whether the domain is in the configuration. Such a domain cannot be deleted here.
    configured: bool,
}

impl Domain {
    fn of(row: PlatformDomain, settings: DomainSettings) -> Self {
        Self {
            name: row.domain,
            catch_all: settings.catch_all,
            separator: settings.separator,
            configured: row.added_at.is_none(),
        }
    }

    fn version(&self) -> String {
        let fields = (
            &self.name,
            &self.catch_all,
            &self.separator,
            self.configured,
        );
        let mut digest = sha256_hex(&format!("{fields:?}"));
        digest.truncate(32);
        digest
    }

    fn settings(&self) -> DomainSettings {
        DomainSettings {
            catch_all: self.catch_all.clone(),
            separator: self.separator.clone(),
        }
    }
}

/// A page of platform domains.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlatformDomains)]
struct Domains {
    /// The domains.
    domains: Vec<Domain>,
    /// The cursor of the next page, or `null` if this is the last page.
    next_cursor: Option<String>,
}

/// A platform domain to add.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewPlatformDomain)]
struct NewDomain {
    /// The name.
    domain: String,
    /// An address of the account that receives mail for unknown addresses.
    #[serde(default)]
    catch_all: Option<String>,
    /// The character before the extension of an address: `+`.
    #[serde(default)]
    separator: Option<String>,
}

/// The changes of a platform domain. A field that is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ChangedPlatformDomain)]
struct ChangedDomain {
    /// The name, which cannot be changed.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    domain: Option<String>,
    /// An address of the account that receives mail for unknown addresses. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    catch_all: Change<String>,
    /// The character before the extension of an address. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    separator: Change<String>,
}

/// Lists the platform domains.
///
/// # Errors
/// Returns 400 if a parameter is invalid.
#[utoipa::path(
    get,
    path = "/admin/api/v1/domains",
    operation_id = "readDomains",
    tag = "Domains",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number of domains. The default is 100"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, description = "A page of domains", body = Domains)),
)]
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let paging = Paging::of(app, request, LIST)?;
    let directory = &app.directory.domains;
    let wanted = directory.platform_domains_after(&paging.after, paging.wanted());
    let mut rows = wanted.await?;
    let next_cursor = paging.next(app, LIST, &mut rows, |row| row.domain.clone())?;
    let mut domains = Vec::with_capacity(rows.len());
    for row in rows {
        let settings = directory.settings(&row.domain).await?;
        domains.push(Domain::of(row, settings.unwrap_or_default()));
    }
    let page = Domains {
        domains,
        next_cursor,
    };
    message::json(StatusCode::OK, &page)
}

/// Adds a platform domain.
///
/// Every account can then create aliases on the domain, and accounts can be created on it. If the
/// request is repeated with the same `Idempotency-Key` within 24 hours, nothing is changed.
///
/// # Errors
/// Returns 400 if a value is invalid, and 409 if the domain exists already.
#[utoipa::path(
    post,
    path = "/admin/api/v1/domains",
    operation_id = "createDomain",
    tag = "Domains",
    params(("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "A unique key that the client chooses")),
    request_body = NewDomain,
    responses(
        (status = 201, description = "The domain", body = Domain),
        (status = 409, description = "The domain exists already, an account has verified it, or the key was used for another request", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn create<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let key = request::idempotency_key(request)?;
    let new: NewDomain = request::body(request, &READ_ONLY)?;
    let name = address::fold_domain(&new.domain);
    let name = name.ok_or_else(|| invalid("domain must be a domain name"))?;
    let (now, origin) = (app.clock.now(), request.origin());
    let settings = DomainSettings {
        catch_all: new.catch_all,
        separator: new.separator,
    };
    let created = app
        .routing
        .create_domain(&name, settings, key.as_ref(), now, &origin);
    match created.await? {
        Created::Added | Created::Repeated => {}
        Created::Refused(_) => return Err(no_domain()),
        Created::Already => return Err(conflict(format!("{name} is a platform domain already"))),
        Created::Taken(owner) => {
            return Err(conflict(format!("The account {owner} has verified {name}")));
        }
        Created::KeyReused => {
            return Err(latchmail_accounts::auth::provisioning::key_reused().into());
        }
    }
    let domain = domain(app, &name).await?;
    let path = format!("/admin/api/v1/domains/{name}");
    request::created(&domain, &domain.version(), &path)
}

/// Shows a platform domain.
///
/// # Errors
/// Returns 404 if there is no such domain.
#[utoipa::path(
    get,
    path = "/admin/api/v1/domains/{domain}",
    operation_id = "readDomain",
    tag = "Domains",
    params(
        ("domain" = String, Path, description = "The name of the domain"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` that the client has"),
    ),
    responses(
        (status = 200, description = "The domain", body = Domain),
        (status = 304, description = "The client has this version"),
        (status = 404, description = "There is no such domain", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn read<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let domain = domain(state.app(), segment(request, "domain")).await?;
    request::found(request, &domain, &domain.version())
}

/// Changes a platform domain.
///
/// # Errors
/// Returns 404 if there is no such domain, and 412 if it has changed.
#[utoipa::path(
    patch,
    path = "/admin/api/v1/domains/{domain}",
    operation_id = "updateDomain",
    tag = "Domains",
    params(
        ("domain" = String, Path, description = "The name of the domain"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the domain must have"),
    ),
    request_body = ChangedDomain,
    responses(
        (status = 200, description = "The domain", body = Domain),
        (status = 404, description = "There is no such domain", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The domain has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn update<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let change: ChangedDomain = request::body(request, &READ_ONLY)?;
    let (now, origin) = (app.clock.now(), request.origin());
    for _ in 0..ATTEMPTS {
        let before = domain(app, segment(request, "domain")).await?;
        check_version(request, "domain", &before.version())?;
        if change
            .domain
            .as_ref()
            .is_some_and(|name| *name != before.name)
        {
            return Err(invalid("domain cannot be changed"));
        }
        let current = before.settings();
        let mut new = current.clone();
        if let Some(catch_all) = &change.catch_all {
            new.catch_all.clone_from(catch_all);
        }
        if let Some(separator) = &change.separator {
            new.separator.clone_from(separator);
        }
        let set = app
            .routing
            .set_domain_if(&before.name, Some(&current), new, now, &origin);
        if set.await?.is_some() {
            let after = domain(app, &before.name).await?;
            return request::object(&after, &after.version());
        }
    }
    Err(changed("domain"))
}

/// Removes a platform domain.
///
/// # Errors
/// Returns 404 if there is no such domain, 409 if it has addresses or is in the configuration, and
/// 412 if it has changed.
#[utoipa::path(
    delete,
    path = "/admin/api/v1/domains/{domain}",
    operation_id = "deleteDomain",
    tag = "Domains",
    params(
        ("domain" = String, Path, description = "The name of the domain"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the domain must have"),
    ),
    responses(
        (status = 200, description = "The domain is removed", body = inline(Success)),
        (status = 404, description = "There is no such domain", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The domain has addresses, or is in the configuration", body = ref("#/components/schemas/Error")),
        (status = 412, description = "The domain has changed", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn delete<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let before = domain(app, segment(request, "domain")).await?;
    check_version(request, "domain", &before.version())?;
    let (now, origin) = (app.clock.now(), request.origin());
    let directory = &app.directory.domains;
    let name = &before.name;
    match directory.remove_platform_domain(name, now, &origin).await? {
        Removed::Removed => message::success(),
        Removed::Unknown => Err(no_domain()),
        Removed::Configured => Err(conflict(format!(
            "{name} is in the configuration (`registration.domains`)"
        ))),
        Removed::InUse(in_use) => Err(conflict(format!(
            "{name} has {} accounts and {} aliases",
            in_use.accounts, in_use.aliases
        ))),
    }
}

/// Returns a platform domain with its settings.
async fn domain(app: &App, name: &str) -> Result<Domain, Rejection> {
    let name = address::fold_domain(name).ok_or_else(no_domain)?;
    let directory = &app.directory.domains;
    let row = directory.platform_domain(&name).await?;
    let row = row.ok_or_else(no_domain)?;
    let settings = directory.settings(&name).await?;
    Ok(Domain::of(row, settings.unwrap_or_default()))
}

fn no_domain() -> Rejection {
    Failure::not_found(codes::DOMAIN_NOT_FOUND, "Domain not found").into()
}

fn conflict(text: String) -> Rejection {
    Rejection::new(StatusCode::CONFLICT, codes::PLATFORM_DOMAIN_CONFLICT, text)
}
