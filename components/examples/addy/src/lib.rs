//! An example of a module: an endpoint for password managers. It is compatible with the API of
//! addy.io, so that the generator of Bitwarden can create aliases. The paths begin with `/addy/`
//! instead of `/api/v1/`, because password managers add the path of addy.io to a base URL.
//!
//! The host authenticates the request: the credential is an API token with the scope
//! `aliases:write`.

mod create;

use latchmail_sdk::capability::{Aliases, Caller, Log, Scope};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// The maximum size of a request body, in bytes.
const SMALL: u32 = 16 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(create::create_addy_alias),
    tags((name = "addy.io", description = "Aliases for password managers"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Aliases + Caller + Log>() -> Module<H> {
    Module::new("addy", env!("CARGO_PKG_VERSION"), Description::openapi).route(
        Route::new("createAddyAlias", create::create_addy_alias)
            .scoped(Scope::AliasesWrite)
            .takes(SMALL),
    )
}

latchmail_sdk::export!(module);
