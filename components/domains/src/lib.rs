//! The routes of custom domains.
//!
//! This file lists the routes. Each action has its own file. The host validates domain names and
//! checks the owner of each domain. The host also queries the DNS and stores the DKIM keys.

mod claim;
mod failure;
mod inspect;
mod list;
mod model;
mod release;
mod verify;

use latchmail_sdk::capability::{Caller, Domains};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// Maximum size of a request body, in bytes. The largest body has one short field.
const SMALL: u32 = 16 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        list::list_domains,
        claim::claim_domain,
        inspect::get_domain,
        verify::verify_domain,
        release::release_domain
    ),
    tags((name = "Domains", description = "Custom domains of the account"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Domains + Caller>() -> Module<H> {
    Module::new("domains", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(Route::new("listDomains", list::list_domains).bucket("domains_read"))
        .route(
            Route::new("claimDomain", claim::claim_domain)
                .bucket("domains_write")
                .takes(SMALL),
        )
        .route(Route::new("getDomain", inspect::get_domain).bucket("domains_read"))
        .route(Route::new("verifyDomain", verify::verify_domain).bucket("domains_write"))
        .route(Route::new("releaseDomain", release::release_domain).bucket("domains_write"))
}

latchmail_sdk::export!(module);
