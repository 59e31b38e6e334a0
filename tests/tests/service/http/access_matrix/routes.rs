//! Routes with the same access.

/// Routes that change the mailbox.
pub(super) const CHANGES: [&str; 21] = [
    "POST /api/v1/mail/messages/{uid}/flag",
    "PUT /api/v1/mail/messages/{uid}/flags",
    "POST /api/v1/mail/messages/{uid}/move",
    "POST /api/v1/mail/messages/{uid}/copy",
    "POST /api/v1/mail/messages/{uid}/trash",
    "POST /api/v1/mail/messages/{uid}/restore",
    "DELETE /api/v1/mail/messages/{uid}",
    "POST /api/v1/mail/messages/bulk/flag",
    "POST /api/v1/mail/messages/bulk/move",
    "POST /api/v1/mail/messages/bulk/copy",
    "POST /api/v1/mail/messages/bulk/trash",
    "POST /api/v1/mail/messages/bulk/restore",
    "POST /api/v1/mail/messages/bulk/delete",
    "POST /api/v1/mail/folders",
    "PATCH /api/v1/mail/folders/{folder}",
    "DELETE /api/v1/mail/folders/{folder}",
    "POST /api/v1/mail/messages/{uid}/snooze",
    "DELETE /api/v1/mail/messages/{uid}/snooze",
    "POST /api/v1/mail/drafts",
    "PUT /api/v1/mail/drafts/{id}",
    "DELETE /api/v1/mail/drafts/{id}",
];

/// Further routes that need a web session.
pub(super) const SESSION_ROUTES: [&str; 20] = [
    "GET /api/v1/profile/sessions",
    "DELETE /api/v1/profile/sessions/{id}",
    "PATCH /api/v1/teams/{id}/grants/{grantId}",
    "POST /api/v1/teams/{id}/members/{userId}/grants",
    "DELETE /api/v1/teams/{id}/grants/{grantId}",
    "DELETE /api/v1/teams/{id}/members/{userId}",
    "GET /api/v1/profile/grants",
    "DELETE /api/v1/profile/grants/{id}",
    "POST /api/v1/profile/grants/{id}/suspend",
    "POST /api/v1/profile/grants/{id}/resume",
    "GET /api/v1/profile/grants/{id}/policy",
    "PUT /api/v1/profile/grants/{id}/policy",
    "GET /api/v1/profile/grants/{id}/journal",
    "POST /api/v1/profile/grants/{id}/rewind",
    "GET /api/v1/profile/holds",
    "GET /api/v1/profile/holds/{id}",
    "POST /api/v1/profile/holds/{id}/approve",
    "POST /api/v1/profile/holds/{id}/reject",
    "GET /api/v1/profile/modules",
    "PUT /api/v1/profile/modules/{name}",
];

/// The routes of webhooks.
pub(super) const WEBHOOKS: [&str; 9] = [
    "GET /api/v1/webhooks",
    "POST /api/v1/webhooks",
    "GET /api/v1/webhooks/{id}",
    "PATCH /api/v1/webhooks/{id}",
    "DELETE /api/v1/webhooks/{id}",
    "POST /api/v1/webhooks/{id}/rotate",
    "POST /api/v1/webhooks/{id}/test",
    "GET /api/v1/webhooks/{id}/deliveries",
    "POST /api/v1/webhooks/{id}/deliveries/{delivery}/replay",
];
