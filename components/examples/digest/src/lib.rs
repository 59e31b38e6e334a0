//! An example of a module: a digest of new messages in a mailbox, as a route, and each morning as a
//! mail. For each account, the module stores the number of the newest message that the user has
//! read, and the paths of the folders to include.
//!
//! This file lists the routes and the timer. Each action has its own file. The host selects the
//! mailbox and the stored values of the caller's account. The code therefore contains no account
//! names.

mod daily;
mod digest;
mod mark;
mod settings;

use latchmail_sdk::capability::{Caller, Mailbox, Outbox, Scope, Store};
use latchmail_sdk::{Handlers, Module, Route};
use utoipa::OpenApi;

/// The maximum size of a request body, in bytes.
const SMALL: u32 = 16 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        digest::get_digest,
        mark::mark_digest,
        settings::get_digest_settings,
        settings::set_digest_settings
    ),
    tags((name = "Digest", description = "New messages since the last mark"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Caller + Mailbox + Store>() -> Module<H> {
    Module::new("digest", env!("CARGO_PKG_VERSION"), Description::openapi)
        .code(settings::FOLDERS_INVALID)
        .code(settings::LIMIT_INVALID)
        .route(
            Route::new("getDigest", digest::get_digest)
                .scoped(Scope::MailRead)
                .with_oauth(),
        )
        .route(
            // The mark determines which messages are new. Users do not expect that a token for
            // reading can change the mark.
            Route::new("markDigest", mark::mark_digest)
                .scoped(Scope::MailWrite)
                .takes(SMALL),
        )
        .route(
            Route::new("getDigestSettings", settings::get_digest_settings).scoped(Scope::MailRead),
        )
        .route(Route::new("setDigestSettings", settings::set_digest_settings).takes(SMALL))
}

/// Returns the timer.
#[must_use]
pub fn handlers<H: Caller + Mailbox + Outbox + Store>() -> Handlers<H> {
    Handlers::new().cron("daily", "0 7 * * *", daily::send_digest)
}

latchmail_sdk::export!(module);
latchmail_sdk::export_handlers!(handlers);
