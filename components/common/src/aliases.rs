//! Lists and creates aliases.

use latchmail_sdk::capability::{self, Aliases, Caller, Error};
use latchmail_sdk::time::sql;
use latchmail_sdk::{Code, Failure, codes, name};
use serde::Serialize;
use utoipa::ToSchema;

/// The code and the error message if the caller has no alias with the requested id.
pub const MISSING: (Code, &str) = (
    codes::ALIAS_NOT_FOUND,
    "Alias not found or not owned by you",
);

/// The maximum number of attempts to create an alias with a random name. A name has 64 random bits,
/// so repeated collisions indicate a fault.
pub const ATTEMPTS: usize = 3;

/// An additional address of the mailbox.
#[derive(Serialize, ToSchema)]
pub struct Alias {
    /// The id, which is derived from the address and stays the same as long as the alias exists.
    // The bound is a floating-point number, because utoipa stores an integer bound as a `usize`. A
    // `usize` has only 32 bits in the sandbox.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    pub id: u64,
    /// The address, in lower case.
    #[schema(format = Email)]
    pub address: String,
    /// Whether the alias receives mail and can be used as a sender.
    pub active: bool,
    /// The time of creation, `YYYY-MM-DD HH:MM:SS` in UTC. Absent if the service did not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-20 08:00:00")]
    pub created: Option<String>,
    /// The time of the last change, `YYYY-MM-DD HH:MM:SS` in UTC. Absent if the service did not
    /// record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-20 08:00:00")]
    pub modified: Option<String>,
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
pub struct AliasList {
    /// The aliases sorted by address, including inactive ones.
    pub aliases: Vec<Alias>,
}

/// A created alias.
#[derive(Serialize, ToSchema)]
pub struct CreatedAlias {
    /// The address of the alias.
    #[schema(format = Email)]
    pub alias: String,
    /// The id of the alias.
    // The bound is a floating-point number for the same reason as the bound in `Alias::id`.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    pub id: u64,
}

/// Returns the caller's aliases.
///
/// # Errors
/// Returns an error if the host cannot list the aliases. [`Failure::of`] converts the error of the
/// host.
pub fn list(host: &(impl Aliases + Caller)) -> Result<AliasList, Failure> {
    let aliases = host
        .list_aliases()
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Ok(AliasList {
        aliases: aliases.into_iter().map(Alias::from).collect(),
    })
}

/// Creates an alias on a domain, with the given name or a random one.
///
/// # Errors
/// Returns 400 if the domain is missing or invalid, if the name is invalid, or if the address is
/// taken. Returns 409 if the account has the maximum number of aliases.
pub fn create(
    host: &(impl Aliases + Caller),
    domain: Option<&str>,
    name: Option<&str>,
) -> Result<CreatedAlias, Failure> {
    let domain = domain
        .filter(|domain| !domain.is_empty())
        .ok_or_else(|| Failure::bad_request(codes::DOMAIN_REQUIRED, "domain is required"))?;
    let created = match name {
        Some(name) => host.create_alias(name, domain),
        None => create_random(host, domain)?,
    };
    let created = created.map_err(|error| match error {
        Error::Invalid(problem) | Error::Conflict(problem) => Failure::of_problem(400, problem),
        Error::TooLarge(problem) => Failure::of_problem(409, problem),
        error => Failure::of(error, MISSING, host),
    })?;
    Ok(CreatedAlias {
        alias: created.address,
        id: created.id,
    })
}

/// Creates an alias with a random name. Tries another name if a name is taken.
fn create_random(
    host: &impl Aliases,
    domain: &str,
) -> Result<Result<capability::Alias, Error>, Failure> {
    let mut created = Err(Error::Internal);
    for _ in 0..ATTEMPTS {
        created = host.create_alias(&name::pronounceable()?, domain);
        if !matches!(created, Err(Error::Conflict(_))) {
            break;
        }
    }
    Ok(created)
}
