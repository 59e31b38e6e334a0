//! The routes of the account's profile and credentials. The credentials are the password, API
//! tokens and app passwords.
//!
//! This file lists the routes. Each action has its own file. The host generates and hashes secrets,
//! and checks the owner of each credential. The host also revokes dependent credentials.

mod app_passwords;
mod grants;
mod label;
mod model;
mod modules;
mod password;
mod profile;
mod sessions;
mod tokens;

use latchmail_sdk::capability::{Caller, Config, Credentials, OwnerModules, Profile, Scope};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// Maximum size of a request body, in bytes. The largest body has a few short fields.
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
        sessions::delete_session,
        grants::list_grants,
        grants::end_grant,
        grants::suspend_grant,
        grants::resume_grant,
        modules::list_modules,
        modules::switch_module
    ),
    tags(
        (name = "Profile", description = "The profile and the password of the account"),
        (name = "Credentials", description = "API tokens, app passwords, and the list of all credentials of the account")
    )
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Profile + Credentials + OwnerModules + Caller + Config>() -> Module<H> {
    Module::new(
        "credentials",
        env!("CARGO_PKG_VERSION"),
        Description::openapi,
    )
    .route(
        Route::new("getProfile", profile::get_profile)
            .scoped(Scope::ProfileRead)
            .bucket("profile"),
    )
    .route(
        Route::new("updateProfile", profile::update_profile)
            .bucket("profile")
            .takes(SMALL),
    )
    .route(
        Route::new("changePassword", password::change_password)
            .bucket("password_change")
            .takes(SMALL),
    )
    .route(
        Route::new("createToken", tokens::create_token)
            .bucket("tokens")
            .takes(SMALL),
    )
    .route(Route::new("listTokens", tokens::list_tokens).bucket("tokens"))
    .route(Route::new("revokeToken", tokens::revoke_token).bucket("tokens"))
    .route(
        Route::new("createAppPassword", app_passwords::create_app_password)
            .bucket("app_passwords")
            .takes(SMALL),
    )
    .route(
        Route::new("deleteAppPassword", app_passwords::delete_app_password).bucket("app_passwords"),
    )
    .route(Route::new("listSessions", sessions::list_sessions).bucket("app_passwords"))
    .route(Route::new("deleteSession", sessions::delete_session).bucket("app_passwords"))
    .route(Route::new("listGrants", grants::list_grants).bucket("app_passwords"))
    .route(Route::new("endGrant", grants::end_grant).bucket("app_passwords"))
    .route(Route::new("suspendGrant", grants::suspend_grant).bucket("app_passwords"))
    .route(Route::new("resumeGrant", grants::resume_grant).bucket("app_passwords"))
    .route(Route::new("listAccountModules", modules::list_modules).bucket("profile"))
    .route(
        Route::new("switchAccountModule", modules::switch_module)
            .bucket("profile")
            .takes(SMALL),
    )
}

latchmail_sdk::export!(module);
