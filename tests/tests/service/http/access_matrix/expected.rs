//! The expected access of each route.

use std::collections::BTreeMap;

use latchmail_core::caller::Scope;
use latchmail_runtime::modules::Access;

use super::routes::{ACCOUNT_PAGE, CHANGES, SESSION_ROUTES, WEBHOOKS};

/// Returns the expected access of each route.
pub(super) fn expected_access() -> BTreeMap<&'static str, Access> {
    let scoped = |scope, oauth| Access::Scoped { scope, oauth };
    let read = scoped(Scope::MailRead, true);
    let write = scoped(Scope::MailWrite, true);
    let send = scoped(Scope::MailSend, true);
    let read_aliases = scoped(Scope::AliasesRead, true);
    let write_aliases = scoped(Scope::AliasesWrite, false);
    BTreeMap::from([
        ("GET /", Access::Public),
        ("GET /docs", Access::Public),
        ("GET /docs/redoc.js", Access::Public),
        ("GET /docs/{page}", Access::Public),
        ("GET /llms.txt", Access::Public),
        ("GET /api/health", Access::Public),
        ("GET /api/readiness", Access::Public),
        ("GET /api/openapi.json", Access::Public),
        ("POST /api/v1/auth/login", Access::Public),
        ("POST /api/v1/auth/refresh", Access::Public),
        ("POST /api/v1/auth/register", Access::Public),
        ("POST /api/v1/auth/logout", Access::Session),
        ("GET /api/v1/auth/username-available", Access::Public),
        ("GET /api/v1/auth/domains", Access::Public),
        ("GET /api/v1/mail/folders", read),
        ("GET /api/v1/mail/folders/{folder}/messages", read),
        ("GET /api/v1/mail/search", read),
        ("GET /api/v1/mail/changes", read),
        ("GET /api/v1/mail/events", read),
        ("GET /api/v1/mail/threads", read),
        ("GET /api/v1/mail/threads/{id}", read),
        ("GET /api/v1/mail/messages/{uid}", read),
        ("GET /api/v1/mail/messages/{uid}/attachments/{index}", read),
        ("GET /api/v1/mail/messages/{uid}/raw", read),
        ("GET /api/v1/mail/messages", read),
        ("POST /api/v1/mail/folders/{folder}/messages", write),
        ("POST /api/v1/mail/send", send),
        ("GET /api/v1/mail/quota", read),
        ("GET /api/v1/mail/messages/{uid}/snooze", read),
        ("GET /api/v1/mail/vacation", read),
        ("PUT /api/v1/mail/vacation", write),
        ("GET /api/v1/mail/rules", read),
        ("PUT /api/v1/mail/rules", write),
        ("GET /api/v1/mail/forward-addresses", read),
        ("POST /api/v1/mail/forward-addresses", Access::Session),
        (
            "POST /api/v1/mail/forward-addresses/{id}/confirm",
            Access::Session,
        ),
        (
            "DELETE /api/v1/mail/forward-addresses/{id}",
            Access::Session,
        ),
        ("POST /api/v1/mail/uploads", send),
        ("POST /api/v1/mail/messages/{uid}/reply", send),
        ("POST /api/v1/mail/messages/{uid}/reply-all", send),
        ("POST /api/v1/mail/messages/{uid}/forward", send),
        ("GET /api/v1/mail/drafts", read),
        ("GET /api/v1/mail/drafts/{id}", read),
        ("POST /api/v1/mail/drafts/{id}/send", send),
        ("GET /api/v1/mail/sent/{messageId}", read),
        ("GET /api/v1/mail/outbox", read),
        ("GET /api/v1/mail/outbox/{id}", read),
        ("PATCH /api/v1/mail/outbox/{id}", send),
        ("DELETE /api/v1/mail/outbox/{id}", send),
        ("GET /api/v1/aliases", read_aliases),
        ("POST /api/v1/aliases", write_aliases),
        ("GET /api/v1/aliases/domains", read_aliases),
        ("GET /api/v1/aliases/check", read_aliases),
        ("PATCH /api/v1/aliases/{id}", write_aliases),
        ("DELETE /api/v1/aliases/{id}", write_aliases),
        ("GET /api/v1/profile", scoped(Scope::ProfileRead, false)),
        ("PATCH /api/v1/profile", Access::Session),
        ("POST /api/v1/profile/password", Access::Session),
        ("POST /api/v1/tokens", Access::Session),
        ("GET /api/v1/tokens", Access::Session),
        ("DELETE /api/v1/tokens/{id}", Access::Session),
        ("POST /api/v1/app-passwords", Access::Session),
        ("DELETE /api/v1/app-passwords/{id}", Access::Session),
    ])
    .into_iter()
    .chain(expected_access_of_administration())
    .chain(SESSION_ROUTES.map(|route| (route, Access::Session)))
    .chain(CHANGES.map(|route| (route, write)))
    .chain(WEBHOOKS.map(|route| (route, read)))
    .chain(ACCOUNT_PAGE.map(|route| (route, Access::Public)))
    .collect()
}

/// Returns the expected access of the routes of domains, teams, agents and administration.
fn expected_access_of_administration() -> BTreeMap<&'static str, Access> {
    BTreeMap::from([
        ("GET /api/v1/domains", Access::Session),
        ("POST /api/v1/domains", Access::Session),
        ("GET /api/v1/domains/{domain}", Access::Session),
        ("POST /api/v1/domains/{domain}/verify", Access::Session),
        ("DELETE /api/v1/domains/{domain}", Access::Session),
        ("GET /api/v1/teams", Access::Session),
        ("GET /api/v1/teams/{id}/members", Access::Session),
        ("POST /api/v1/teams/{id}/invitations", Access::Session),
        ("GET /.well-known/oauth-protected-resource", Access::Public),
        (
            "GET /.well-known/oauth-protected-resource/mcp",
            Access::Public,
        ),
        (
            "GET /.well-known/oauth-authorization-server",
            Access::Public,
        ),
        ("POST /auth/register", Access::Public),
        ("POST /auth/token", Access::Public),
        ("POST /auth/device", Access::Public),
        ("POST /auth/revoke", Access::Public),
        ("GET /login", Access::Public),
        ("POST /login", Access::Public),
        ("GET /device", Access::Public),
        ("POST /device", Access::Public),
        ("POST /mcp", Access::OAuth),
        ("GET /mcp", Access::OAuth),
        ("DELETE /mcp", Access::OAuth),
        ("GET /api/v1/admin/modules", Access::Admin),
        ("GET /api/v1/admin/modules/{name}", Access::Admin),
        ("GET /api/v1/admin/modules/{name}/log", Access::Admin),
        ("POST /api/v1/admin/modules", Access::Admin),
        ("POST /api/v1/admin/modules/inspect", Access::Admin),
        ("POST /api/v1/admin/modules/{name}/enable", Access::Admin),
        ("POST /api/v1/admin/modules/{name}/disable", Access::Admin),
        ("POST /api/v1/admin/modules/{name}/rollback", Access::Admin),
        ("POST /api/v1/admin/modules/{name}/resume", Access::Admin),
        ("POST /api/v1/admin/modules/{name}/preview", Access::Admin),
        ("POST /api/v1/admin/modules/{name}/compare", Access::Admin),
        ("DELETE /api/v1/admin/modules/{name}", Access::Admin),
    ])
}
