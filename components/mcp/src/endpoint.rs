//! POST `/mcp`: reads protocol messages from an HTTP request and writes the responses.

use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::revision::Revision;
use crate::rpc::{self, Message, Response, RpcError};
use crate::{Capabilities, headers, methods, origin};

/// The maximum number of messages in a batch. All messages of a batch share the limits of one HTTP
/// request.
pub(crate) const MAX_BATCH: usize = 10;
/// The budget of a batch, in bytes. The size of each response counts towards the budget, and the
/// size of the HTML that was converted to text for the response. After the budget is exceeded, each
/// remaining message gets an error. The message that exceeds the budget still gets its complete
/// response. The budget is so small that the HTTP response then stays within the limits on time and
/// size.
const BATCH_BUDGET: usize = 1024 * 1024;

/// A message of JSON-RPC 2.0.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct AgentMessage {
    /// The version of JSON-RPC: `2.0`.
    jsonrpc: String,
    /// The id of the request. Absent in a notification.
    #[schema(value_type = Option<AgentMessageId>, nullable = false)]
    id: Option<AgentMessageId>,
    /// The name of the method: `server/discover`, `tools/list`, `tools/call`, `events/list`,
    /// `events/subscribe` or `events/unsubscribe`. Revisions before 2026-07-28 also have
    /// `initialize` and `ping`.
    method: String,
    /// The parameters of the method.
    #[schema(value_type = Option<Object>, nullable = false)]
    params: Option<Value>,
}

/// The id of a request.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum AgentMessageId {
    /// Any string.
    #[schema(title = "String")]
    Text(String),
    /// Any integer.
    #[schema(title = "Integer")]
    Number(i64),
}

/// The response to a message of JSON-RPC 2.0: a result or an error.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct AgentAnswer {
    /// The version of JSON-RPC: `2.0`.
    jsonrpc: String,
    /// The id of the request.
    #[schema(value_type = Option<AgentMessageId>, nullable = true)]
    id: Option<AgentMessageId>,
    /// The result of the method.
    #[schema(value_type = Option<Object>, nullable = false)]
    result: Option<Value>,
    /// The error: `code`, `message` and, if there are details, `data`.
    #[schema(value_type = Option<Object>, nullable = false)]
    error: Option<Value>,
}

/// Call the agent endpoint
///
/// Serves the Model Context Protocol over Streamable HTTP, in the revisions 2026-07-28, 2025-11-25,
/// 2025-06-18 and 2025-03-26. Requests are independent of each other; there are no sessions and no
/// event streams. The available tools depend on the scopes of the token. Only revision 2025-03-26
/// accepts an array of up to 10 messages.
#[utoipa::path(
    post,
    path = "/mcp",
    operation_id = "callAgentEndpoint",
    tag = "Agents",
    params(
        ("MCP-Protocol-Version" = Option<String>, Header, description = "The revision; 2025-03-26 if absent"),
        ("Mcp-Method" = Option<String>, Header, description = "The message's method; required from 2026-07-28 on"),
        ("Mcp-Name" = Option<String>, Header, description = "The name of the called tool; required from 2026-07-28 on")
    ),
    request_body = AgentMessage,
    responses(
        (status = 200, description = "The response, which may contain an error of a tool", body = AgentAnswer),
        (status = 202, description = "The notification was accepted"),
        (status = 400, description = "The body is not a protocol message, the revision is unknown, or the headers do not match the body", body = AgentAnswer),
        (status = 403, description = "The origin of the web page is not allowed, or the token lacks the scope of the tool (with `WWW-Authenticate`)", body = AgentAnswer),
        (status = 404, description = "The method does not exist (from revision 2026-07-28 on)", body = AgentAnswer),
        (status = 406, description = "The client does not accept JSON", body = AgentAnswer),
        (status = 415, description = "The body is not declared as JSON", body = AgentAnswer)
    )
)]
pub(crate) fn post(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    match respond(host, request) {
        Ok(Responses::None) => Ok(Reply::empty(202)),
        Ok(Responses::One(response)) => {
            let reply = write(response.status, &response)?;
            Ok(match &response.challenge {
                Some(challenge) => reply.with("www-authenticate", challenge),
                None => reply,
            })
        }
        Ok(Responses::Several(responses)) => write(200, &responses),
        Err(error) => {
            let response = Response::error(null_id(request), error);
            write(response.status, &response)
        }
    }
}

fn write<T: Serialize>(status: u16, body: &T) -> Result<Reply, Failure> {
    // Caches must not store the response, because it contains private data of the caller.
    let reply = Reply::with_status(status, body)?;
    Ok(reply.with("cache-control", "private, no-store"))
}

/// The responses to a request body.
enum Responses {
    /// The body contained only notifications.
    None,
    One(Box<Response>),
    Several(Vec<Response>),
}

fn respond(host: &impl Capabilities, request: &Request) -> Result<Responses, RpcError> {
    if !origin::may_call(request, host) {
        return Err(RpcError::invalid_request(origin::REFUSAL).with_status(403));
    }
    if !headers::is_json(request) {
        let error = RpcError::invalid_request("Content-Type must be application/json");
        return Err(error.with_status(415));
    }
    if !headers::accepts_json(request) {
        let error = RpcError::invalid_request("Accept must allow application/json");
        return Err(error.with_status(406));
    }
    // serde_json limits the nesting depth to 128.
    let body = serde_json::from_slice(&request.body).map_err(|_| RpcError::parse())?;
    let Value::Array(messages) = body else {
        let response = respond_to(host, request, body, Position::Single);
        return Ok(response.map_or(Responses::None, |one| Responses::One(Box::new(one))));
    };
    if !headers::revision(request)?.has_batches() {
        return Err(RpcError::invalid_request(
            "The body must be one message: only revision 2025-03-26 has batches",
        ));
    }
    if messages.is_empty() || messages.len() > MAX_BATCH {
        return Err(RpcError::invalid_request(format!(
            "A batch must contain 1 to {MAX_BATCH} messages"
        )));
    }
    let mut responses = Vec::new();
    let mut spent = 0;
    for message in messages {
        let position = if spent > BATCH_BUDGET {
            Position::OverBudget
        } else {
            Position::InBatch
        };
        let response = respond_to(host, request, message, position);
        spent += response.as_ref().map_or(0, Response::cost);
        responses.extend(response);
    }
    Ok(if responses.is_empty() {
        Responses::None
    } else {
        Responses::Several(responses)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The message is the whole body.
    Single,
    /// The message is part of a batch.
    InBatch,
    /// The message is part of a batch whose budget is exceeded.
    OverBudget,
}

/// Returns the response to one message, or `None` for a valid notification.
fn respond_to(
    host: &impl Capabilities,
    request: &Request,
    message: Value,
    position: Position,
) -> Option<Response> {
    match rpc::read(message) {
        Ok(Message::Request { id, method, params }) => {
            let outcome = serve(host, request, &method, &params, position);
            Some(Response::to(id, outcome))
        }
        Ok(Message::Notification { params }) => {
            let error = headers::revision_of(request, &params).err()?;
            Some(Response::error(null_id(request), error))
        }
        Err((id, error)) => Some(Response::error(id.or_else(|| null_id(request)), error)),
    }
}

/// Returns the id of an error response that belongs to no request. The id is null. In revisions
/// that allow errors without an id, returns `None`.
fn null_id(request: &Request) -> Option<Value> {
    let revision = headers::revision(request).unwrap_or(Revision::R2025_11_25);
    (!revision.may_lack_id()).then_some(Value::Null)
}

fn serve(
    host: &impl Capabilities,
    request: &Request,
    method: &str,
    params: &rpc::Params,
    position: Position,
) -> Result<rpc::MethodResult, RpcError> {
    let revision = headers::revision_of(request, params)?;
    if revision.is_stateless() {
        headers::check(request, method, params)?;
    }
    if position == Position::OverBudget {
        return Err(RpcError::invalid_request(
            "The responses to this batch are too long; send this message again in a separate request",
        ));
    }
    if position == Position::InBatch && (method == "initialize" || !revision.has_batches()) {
        return Err(RpcError::invalid_request(
            "This message may not be part of a batch",
        ));
    }
    methods::serve(host, revision, method, params)
}
