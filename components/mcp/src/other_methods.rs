//! GET and DELETE `/mcp`: return 405, because there is no event stream to open and no session to
//! end.

use latchmail_sdk::{Failure, Reply, Request, codes};

use crate::{Capabilities, origin};

/// Open an event stream
///
/// Always returns 405, because the endpoint has no event streams.
#[utoipa::path(
    get,
    path = "/mcp",
    operation_id = "openAgentStream",
    tag = "Agents",
    responses((status = 405, description = "`The agent endpoint supports only POST`", body = latchmail_sdk::Failed))
)]
pub(crate) fn get(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    not_allowed(host, request)
}

/// End a session
///
/// Always returns 405, because the endpoint has no sessions: requests are independent of each
/// other.
#[utoipa::path(
    delete,
    path = "/mcp",
    operation_id = "endAgentSession",
    tag = "Agents",
    responses((status = 405, description = "`The agent endpoint supports only POST`", body = latchmail_sdk::Failed))
)]
pub(crate) fn delete(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    not_allowed(host, request)
}

fn not_allowed(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    if !origin::may_call(request, host) {
        return Err(Failure::new(403, codes::FOREIGN_ORIGIN, origin::REFUSAL));
    }
    let failure = Failure::new(
        405,
        codes::METHOD_NOT_ALLOWED,
        "The agent endpoint supports only POST",
    );
    Ok(Reply::from(failure).with("allow", "POST"))
}
