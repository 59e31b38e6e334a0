//! The routes of aliases. An alias is an additional address of a mailbox. The mailbox receives mail
//! for the alias, and the owner can send mail from the alias.
//!
//! This file lists the routes. Each action has its own file. The host validates the names of
//! aliases and checks the owner of each address.

mod change;
mod check;
mod create;
mod domains;
mod list;

use latchmail_common::aliases::MISSING;
use latchmail_sdk::capability::{Aliases, Caller, Scope};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// Maximum size of a request body, in bytes. The largest body has two short fields.
const SMALL: u32 = 16 * 1024;

const BUCKET: &str = "aliases";

#[derive(OpenApi)]
#[openapi(
    paths(
        list::list_aliases,
        create::create_alias,
        domains::list_alias_domains,
        check::check_alias,
        change::update_alias,
        change::delete_alias
    ),
    tags((name = "Aliases", description = "Additional addresses that deliver to the mailbox and can be used as senders"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Aliases + Caller>() -> Module<H> {
    Module::new("aliases", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(
            Route::new("listAliases", list::list_aliases)
                .scoped(Scope::AliasesRead)
                .with_oauth()
                .bucket(BUCKET),
        )
        .route(
            Route::new("createAlias", create::create_alias)
                .scoped(Scope::AliasesWrite)
                .bucket(BUCKET)
                .takes(SMALL),
        )
        .route(
            Route::new("listAliasDomains", domains::list_alias_domains)
                .scoped(Scope::AliasesRead)
                .with_oauth()
                .bucket(BUCKET),
        )
        .route(
            Route::new("checkAlias", check::check_alias)
                .scoped(Scope::AliasesRead)
                .with_oauth()
                .bucket(BUCKET),
        )
        .route(
            Route::new("updateAlias", change::update_alias)
                .scoped(Scope::AliasesWrite)
                .bucket(BUCKET)
                .takes(SMALL),
        )
        .route(
            Route::new("deleteAlias", change::delete_alias)
                .scoped(Scope::AliasesWrite)
                .bucket(BUCKET),
        )
}

latchmail_sdk::export!(module);
