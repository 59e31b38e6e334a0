//! The routes of the account and its credentials (specification, sections 4.5 and 4.6): profile, password, API tokens, app passwords, and
//! the list of all credentials.
//!
//! This file is the list of routes; each action has its own file. The host generates and hashes secrets, checks who owns a credential, and
//! revokes dependent credentials.

mod app_passwords;
mod label;
mod model;
mod password;
mod profile;
mod sessions;
#[cfg(test)]
mod testing;
mod tokens;

use latchmail_sdk::capability::{Caller, Config, Credentials, Profile, Scope};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// Maximum size of the body of any route in bytes: a few fields.
const SMALL: u32 = 16 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        profile::get_profile,
        profile::update_profile,
        password::change_password,
        tokens::create_token,
        tokens::list_tokens,
        tokens::revoke_token,
        app_passwords::create_app_password,
        app_passwords::delete_app_password,
        sessions::list_sessions,
        sessions::delete_session
    ),
    tags(
        (name = "Profile", description = "What people said of themselves, and their password"),
        (name = "Credentials", description = "API tokens, app passwords, and all that can reach an account")
    )
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Profile + Credentials + Caller + Config>() -> Module<H> {
    Module::new(
        "credentials",
        env!("CARGO_PKG_VERSION"),
        Description::openapi,
    )
    .route(
        Route::new("getProfile", profile::get_profile)
            .scoped(Scope::ProfileRead)
            .area("profile"),
    )
    .route(
        Route::new("updateProfile", profile::update_profile)
            .area("profile")
            .takes(SMALL),
    )
    .route(
        Route::new("changePassword", password::change_password)
            .area("password_change")
            .takes(SMALL),
    )
    .route(
        Route::new("createToken", tokens::create_token)
            .area("tokens")
            .takes(SMALL),
    )
    .route(Route::new("listTokens", tokens::list_tokens).area("tokens"))
    .route(Route::new("revokeToken", tokens::revoke_token).area("tokens"))
    .route(
        Route::new("createAppPassword", app_passwords::create_app_password)
            .area("app_passwords")
            .takes(SMALL),
    )
    .route(
        Route::new("deleteAppPassword", app_passwords::delete_app_password).area("app_passwords"),
    )
    .route(Route::new("listSessions", sessions::list_sessions).area("app_passwords"))
    .route(Route::new("deleteSession", sessions::delete_session).area("app_passwords"))
}

latchmail_sdk::export!(module);
