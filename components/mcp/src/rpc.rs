//! JSON-RPC 2.0: messages from clients, error codes, and responses.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) type Params = Map<String, Value>;

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Message {
    /// A message that expects a response.
    Request {
        /// A string or an integer.
        id: Value,
        method: String,
        params: Params,
    },
    /// A message that expects no response.
    Notification {
        /// The parameters.
        params: Params,
    },
}

/// An error of the protocol.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RpcError {
    code: i32,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// The HTTP status of the response. In a batch, this status is ignored.
    #[serde(skip)]
    pub(crate) status: u16,
    /// The `WWW-Authenticate` header. Used only if the HTTP response contains no other message.
    #[serde(skip)]
    pub(crate) challenge: Option<String>,
}

impl RpcError {
    fn new(code: i32, status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
            status,
            challenge: None,
        }
    }

    /// Creates the error for a body that is not JSON.
    pub(crate) fn parse() -> Self {
        Self::new(-32700, 400, "The body is not JSON")
    }

    /// Creates the error for a request whose body or headers violate the protocol.
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32600, 400, message)
    }

    /// Creates the error for an unknown method. In stateless revisions the status is 404.
    pub(crate) fn no_method(stateless: bool) -> Self {
        let status = if stateless { 404 } else { 200 };
        Self::new(-32601, status, "Method not found")
    }

    /// Creates the error for invalid parameters of a method.
    pub(crate) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32602, 200, message)
    }

    /// Creates the error for a missing or malformed field that the protocol revision requires.
    pub(crate) fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32602, 400, message)
    }

    /// Creates the error for an unexpected failure.
    pub(crate) fn internal() -> Self {
        Self::new(-32603, 500, "The operation could not be completed")
    }

    /// Creates the error for a header that is missing or does not match the body.
    pub(crate) fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32020, 400, message)
    }

    /// Creates the error for an unsupported revision. The error lists the supported revisions.
    pub(crate) fn unsupported_version(requested: &str) -> Self {
        let supported = crate::revision::ALL.map(crate::revision::Revision::name);
        Self {
            data: Some(serde_json::json!({ "supported": supported, "requested": requested })),
            ..Self::new(-32022, 400, "Unsupported protocol version")
        }
    }

    /// Creates the error for a token that lacks this scope (RFC 6750, section 3.1).
    pub(crate) fn insufficient_scope(scope: &str) -> Self {
        Self {
            challenge: Some(format!(
                "Bearer error=\"insufficient_scope\", scope=\"{scope}\""
            )),
            ..Self::new(
                -32600,
                403,
                format!("This credential is missing the \"{scope}\" scope"),
            )
        }
    }

    /// Creates an error with a code of an extension.
    pub(crate) fn application(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code, 200, message)
    }

    pub(crate) fn with_data(self, data: Value) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

/// Parses a message.
///
/// # Errors
/// Returns an error if the message is not a valid request or notification. The error includes the
/// id of the message if the id is valid.
pub(crate) fn read(message: Value) -> Result<Message, (Option<Value>, RpcError)> {
    let Value::Object(mut message) = message else {
        let error = RpcError::invalid_request("A message must be an object");
        return Err((None, error));
    };
    let id = message.remove("id");
    let valid_id = id.clone().filter(is_id);
    let invalid = |text: &'static str| Err((valid_id.clone(), RpcError::invalid_request(text)));
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("jsonrpc must be \"2.0\"");
    }
    if message.contains_key("result") || message.contains_key("error") {
        // The id of a response refers to a request from this server, so the error must not contain
        // the id.
        let error = "This server sends no requests, so it accepts no responses";
        return Err((None, RpcError::invalid_request(error)));
    }
    if id.is_some() && valid_id.is_none() {
        return invalid("id must be a string or an integer");
    }
    let Some(Value::String(method)) = message.remove("method") else {
        return invalid("method must be a string");
    };
    let params = match message.remove("params") {
        None => Params::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return invalid("params must be an object"),
    };
    Ok(match valid_id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { params },
    })
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

pub(crate) struct MethodResult {
    /// The result, serialized as JSON.
    pub(crate) result: Box<RawValue>,
    /// The number of bytes of HTML that were converted to text.
    pub(crate) converted_bytes: usize,
}

/// The response to a message.
#[derive(Debug, Serialize)]
pub(crate) struct Response {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RpcError>,
    #[serde(skip)]
    pub(crate) status: u16,
    /// The `WWW-Authenticate` header. Used only if the HTTP response contains no other message.
    #[serde(skip)]
    pub(crate) challenge: Option<String>,
    /// The number of bytes of HTML that were converted to text.
    #[serde(skip)]
    converted_bytes: usize,
}

impl Response {
    /// Creates the response to the request with the id `id`.
    pub(crate) fn to(id: Value, outcome: Result<MethodResult, RpcError>) -> Self {
        match outcome {
            Ok(MethodResult {
                result,
                converted_bytes,
            }) => Self {
                jsonrpc: "2.0",
                id: Some(id),
                result: Some(result),
                error: None,
                status: 200,
                challenge: None,
                converted_bytes,
            },
            Err(error) => Self::error(Some(id), error),
        }
    }

    /// Returns the cost of the response in the budget of a batch: its size plus the size of the
    /// converted HTML.
    pub(crate) fn cost(&self) -> usize {
        let size = self.result.as_ref().map_or(0, |result| result.get().len());
        size + self.converted_bytes
    }

    /// Creates an error response. If the error belongs to no request, `id` is null or `None`.
    pub(crate) fn error(id: Option<Value>, mut error: RpcError) -> Self {
        Self {
            jsonrpc: "2.0",
            id,
            result: None,
            status: error.status,
            challenge: error.challenge.take(),
            error: Some(error),
            converted_bytes: 0,
        }
    }
}
