//! The routes of shared mailboxes. A team is a mailbox with the members that can use it. The routes
//! manage teams, members, invitations and grants.
//!
//! This file lists the routes. Each action has its own file. The host checks the membership in a
//! team, and the rights that a member can grant. The host also stores the app passwords with which
//! guests access a mailbox.

mod add_grant;
mod change_grant;
#[expect(dead_code, reason = "used only for the API description")]
mod described;
mod failure;
mod invite;
mod list;
mod members;
mod model;
mod remove;
mod request;
mod revoke_grant;
#[cfg(test)]
mod testing;

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Module, Route};
use utoipa::OpenApi;

/// Maximum size of a request body, in bytes. The largest body contains a user and a grant.
const SMALL: u32 = 16 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        list::list_teams,
        members::list_members,
        invite::invite_member,
        add_grant::add_grant,
        change_grant::change_grant,
        revoke_grant::revoke_grant,
        remove::remove_member
    ),
    tags((name = "Teams", description = "Shared mailboxes"))
)]
struct Description;

/// Returns the module.
#[must_use]
pub fn module<H: Teams + Caller>() -> Module<H> {
    Module::new("teams", env!("CARGO_PKG_VERSION"), Description::openapi)
        .route(Route::new("listTeams", list::list_teams).bucket("teams"))
        .route(Route::new("listMembers", members::list_members).bucket("teams"))
        .route(
            // The request contains the caller's password, so the request counts towards the rate
            // limit of sign-in.
            Route::new("inviteMember", invite::invite_member)
                .bucket("sign_in")
                .takes(SMALL),
        )
        .route(
            Route::new("addGrant", add_grant::add_grant)
                .bucket("teams")
                .takes(SMALL),
        )
        .route(
            Route::new("changeGrant", change_grant::change_grant)
                .bucket("teams")
                .takes(SMALL),
        )
        .route(Route::new("revokeGrant", revoke_grant::revoke_grant).bucket("teams"))
        .route(Route::new("removeMember", remove::remove_member).bucket("teams"))
}

latchmail_sdk::export!(module);
