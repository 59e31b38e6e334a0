//! Aliases: those there are, and a new one.

use latchmail_sdk::capability::{self, Aliases, Caller, Error};
use latchmail_sdk::time::sql;
use latchmail_sdk::{Failure, name};
use serde::Serialize;
use utoipa::ToSchema;

/// What is answered where the caller has no alias of that id.
pub const MISSING: &str = "Alias not found or not owned by you";

/// Random names that are tried. Of 64 random bits one that is taken is a freak; a second is a fault.
pub const ATTEMPTS: usize = 3;

/// A further address.
#[derive(Serialize, ToSchema)]
pub struct Alias {
    /// Derived from the address: the same as long as the alias exists.
    // With a point, because utoipa keeps whole numbers as `usize`, which has 32 bits in the sandbox.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    pub id: u64,
    /// The address, in lower case.
    #[schema(format = Email)]
    pub address: String,
    /// Whether it delivers and may be used as a sender.
    pub active: bool,
    /// When it was made, `YYYY-MM-DD HH:MM:SS` in UTC; absent for one that the service never saw being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-20 08:00:00")]
    pub created: Option<String>,
    /// When it was last changed, likewise.
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
    /// By address, inactive ones among them.
    pub aliases: Vec<Alias>,
}

/// An alias that was made.
#[derive(Serialize, ToSchema)]
pub struct CreatedAlias {
    /// The address.
    #[schema(format = Email)]
    pub alias: String,
    /// Its id.
    // With a point, because utoipa keeps whole numbers as `usize`, which has 32 bits in the sandbox.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991.0)]
    pub id: u64,
}

/// The caller's aliases.
///
/// # Errors
/// What the directory fails with.
pub fn list(host: &(impl Aliases + Caller)) -> Result<AliasList, Failure> {
    let aliases = host
        .list_aliases()
        .map_err(|error| Failure::of(error, MISSING, host))?;
    Ok(AliasList {
        aliases: aliases.into_iter().map(Alias::from).collect(),
    })
}

/// Makes an alias on a domain, under a name of the caller's or a random one.
///
/// # Errors
/// 400 without a domain, for a name or a domain that will not do, and for an address that is taken; 409 where there are as many as there may be.
pub fn create(
    host: &(impl Aliases + Caller),
    domain: Option<&str>,
    name: Option<&str>,
) -> Result<CreatedAlias, Failure> {
    let domain = domain
        .filter(|domain| !domain.is_empty())
        .ok_or_else(|| Failure::bad_request("domain is required"))?;
    let made = match name {
        Some(name) => host.create_alias(name, domain),
        None => random(host, domain)?,
    };
    let made = made.map_err(|error| match error {
        Error::Invalid(text) | Error::Conflict(text) => Failure::bad_request(text),
        Error::TooLarge(text) => Failure::conflict(text),
        error => Failure::of(error, MISSING, host),
    })?;
    Ok(CreatedAlias {
        alias: made.address,
        id: made.id,
    })
}

fn random(host: &impl Aliases, domain: &str) -> Result<Result<capability::Alias, Error>, Failure> {
    let mut made = Err(Error::Internal);
    for _ in 0..ATTEMPTS {
        made = host.create_alias(&name::pronounceable()?, domain);
        if !matches!(made, Err(Error::Conflict(_))) {
            break;
        }
    }
    Ok(made)
}
