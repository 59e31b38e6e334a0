//! The session resource (RFC 8620, section 2), which `/.well-known/jmap` also returns.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use latchmail_sdk::capability::{FilterError, Scope};
use latchmail_sdk::{Failure, Reply, Request};
use serde_json::{Value, json};

use crate::Capabilities;
use crate::api::Json;
use crate::args::Object;
use crate::context::Context;
use crate::limits;

pub(crate) const CORE: &str = "urn:ietf:params:jmap:core";
pub(crate) const MAIL: &str = "urn:ietf:params:jmap:mail";
pub(crate) const SUBMISSION: &str = "urn:ietf:params:jmap:submission";
pub(crate) const VACATION: &str = "urn:ietf:params:jmap:vacationresponse";
pub(crate) const QUOTA: &str = "urn:ietf:params:jmap:quota";

/// The setting with the URL of the service. Without it, the URLs of the session are relative.
const BASE_URL: &str = "base_url";

/// Returns whether a request can use a capability.
pub(crate) fn is_capability(name: &str) -> bool {
    [CORE, MAIL, SUBMISSION, VACATION, QUOTA].contains(&name)
}

/// Discover JMAP
///
/// Returns the session resource, for clients that know only the host (RFC 8620, section 2.2).
#[utoipa::path(
    get,
    path = "/.well-known/jmap",
    operation_id = "discoverJmap",
    tag = "JMAP",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "A `Session` (RFC 8620, section 2)", body = inline(Json)))
)]
pub(crate) fn discover(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    get_session(host, request)
}

/// Get the session
///
/// Returns the account of the caller, the capabilities and the URLs. An account is read-only if the
/// credential lacks the scope `mail:write`.
#[utoipa::path(
    get,
    path = "/jmap/session",
    operation_id = "getJmapSession",
    tag = "JMAP",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "A `Session` (RFC 8620, section 2)", body = inline(Json)))
)]
pub(crate) fn get_session(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    let ctx = Context::new(host, &request.id);
    let base = latchmail_sdk::capability::Config::get(host, BASE_URL);
    let base = base.unwrap_or_default();
    let of_account = account_capabilities(&ctx);
    let primary: Object = of_account
        .keys()
        .map(|name| (name.clone(), ctx.account.as_str().into()))
        .collect();
    let mut capabilities: Object = of_account
        .keys()
        .map(|name| (name.clone(), json!({})))
        .collect();
    capabilities.insert(CORE.into(), core());
    let account = json!({
        "name": ctx.caller.address,
        "isPersonal": true,
        "isReadOnly": !ctx.holds(Scope::MailWrite),
        "accountCapabilities": of_account,
    });
    let accounts: Object = [(ctx.account.clone(), account)].into_iter().collect();
    let session = json!({
        "capabilities": capabilities,
        "accounts": accounts,
        "primaryAccounts": primary,
        "username": ctx.caller.address,
        "apiUrl": format!("{base}/jmap/api"),
        "downloadUrl":
            format!("{base}/jmap/download/{{accountId}}/{{blobId}}/{{name}}?accept={{type}}"),
        "uploadUrl": format!("{base}/jmap/upload/{{accountId}}"),
        "eventSourceUrl": format!(
            "{base}/jmap/eventsource?types={{types}}&closeafter={{closeafter}}&ping={{ping}}"
        ),
        "state": state(&ctx),
    });
    let reply = Reply::json(&session)?;
    Ok(reply.with("cache-control", "no-cache, no-store, must-revalidate"))
}

/// Returns the state of the session. It depends on the account and the rights of the caller.
pub(crate) fn state<H>(ctx: &Context<'_, H>) -> String {
    let mut hash = DefaultHasher::new();
    (&ctx.caller.address, &ctx.caller.scopes).hash(&mut hash);
    (env!("CARGO_PKG_VERSION"), &ctx.caller.kind).hash(&mut hash);
    format!("{:016x}", hash.finish())
}

fn core() -> Value {
    json!({
        "maxSizeUpload": limits::MAX_UPLOAD,
        "maxConcurrentUpload": limits::MAX_CONCURRENT_UPLOADS,
        "maxSizeRequest": limits::MAX_REQUEST,
        "maxConcurrentRequests": limits::MAX_CONCURRENT_REQUESTS,
        "maxCallsInRequest": limits::MAX_CALLS,
        "maxObjectsInGet": limits::MAX_GET,
        "maxObjectsInSet": limits::MAX_SET,
        "collationAlgorithms": [],
    })
}

/// Returns the capabilities of the account that work with this credential.
fn account_capabilities<H: Capabilities>(ctx: &Context<'_, H>) -> Object {
    let mut capabilities = Object::new();
    capabilities.insert(CORE.into(), json!({}));
    if ctx.holds(Scope::MailRead) {
        capabilities.insert(MAIL.into(), mail(ctx.holds(Scope::MailWrite)));
        capabilities.insert(QUOTA.into(), json!({}));
        let has_filters = match ctx.host.get_filters() {
            Ok(_) => true,
            // The mail server can be unavailable for a moment.
            Err(error) => !matches!(error, FilterError::Unsupported(_)),
        };
        if has_filters {
            capabilities.insert(VACATION.into(), json!({}));
        }
        if ctx.holds(Scope::MailSend) {
            let submission = json!({
                "maxDelayedSend": limits::MAX_DELAY,
                "submissionExtensions": { "FUTURERELEASE": [] },
            });
            capabilities.insert(SUBMISSION.into(), submission);
        }
    }
    capabilities
}

fn mail(can_write: bool) -> Value {
    json!({
        "maxMailboxesPerEmail": 1,
        "maxMailboxDepth": limits::MAX_MAILBOX_DEPTH,
        "maxSizeMailboxName": limits::MAX_MAILBOX_NAME,
        "maxSizeAttachmentsPerEmail": limits::MAX_ATTACHMENTS,
        "emailQuerySortOptions": [
            "receivedAt",
            "sentAt",
            "size",
            "hasKeyword",
            "allInThreadHaveKeyword",
            "someInThreadHaveKeyword",
        ],
        "mayCreateTopLevelMailbox": can_write,
    })
}
