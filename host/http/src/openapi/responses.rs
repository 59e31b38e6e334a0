//! Adds the error responses of the request pipeline, and the headers that the host sets.
//!
//! If an operation already describes a response, only the missing headers and the error schema are
//! added to this response.

use latchmail_runtime::modules::{Access, Route};
use serde_json::{Map, Value, json};

use crate::access;

const JSON: &str = "application/json";
const ERROR: &str = "#/components/schemas/Error";

/// The rate-limit headers of responses. Each entry contains the name of a header and the name of a
/// component.
const RATE_LIMIT: [(&str, &str); 3] = [
    ("X-RateLimit-Limit", "RateLimitLimit"),
    ("X-RateLimit-Remaining", "RateLimitRemaining"),
    ("X-RateLimit-Reset", "RateLimitReset"),
];
/// The statuses of errors that occur before the request is counted. Responses with these statuses
/// have no rate-limit headers.
const UNCOUNTED: [&str; 4] = ["405", "414", "431", "501"];
const REQUEST_ID: (&str, &str) = ("X-Request-Id", "RequestId");

/// An error response of the request pipeline.
struct PipelineError {
    status: &'static str,
    /// The name of the component that describes the response.
    name: &'static str,
    description: &'static str,
    /// An additional header of responses with this status, and the name of the header's component.
    header: Option<(&'static str, &'static str)>,
    /// Returns `true` if the pipeline can return the error for a route.
    applies: fn(&Route) -> bool,
}

impl PipelineError {
    /// The default values: the error has no additional header, and every route can return it.
    const OF_EVERY_ROUTE: Self = Self {
        status: "",
        name: "",
        description: "",
        header: None,
        applies: |_| true,
    };
}

const ERRORS: [PipelineError; 13] = [
    PipelineError {
        status: "400",
        name: "BadRequest",
        description: "A value is malformed, missing or out of range; the message names the field",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "401",
        name: "Unauthorized",
        description: "The credential is missing or invalid",
        header: Some(("WWW-Authenticate", "Challenge")),
        applies: needs_credential,
    },
    PipelineError {
        status: "403",
        name: "Forbidden",
        description: "The credential is valid but does not allow this, or the request is for the script of a service worker",
        header: Some(("WWW-Authenticate", "Challenge")),
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "404",
        name: "NotFound",
        description: "The object does not exist, or is not visible to the caller",
        applies: |route| access::takes_mailbox(route.access),
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "405",
        name: "MethodNotAllowed",
        description: "The path does not have this method",
        header: Some(("Allow", "Allow")),
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "408",
        name: "RequestTimeout",
        description: "The request did not arrive in time",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "413",
        name: "PayloadTooLarge",
        description: "The body is larger than this operation accepts",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "414",
        name: "UriTooLong",
        description: "The request's URL is too long",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "429",
        name: "TooManyRequests",
        description: "Too many requests; retry after the time in `Retry-After`",
        header: Some(("Retry-After", "RetryAfter")),
        // A route with `is_page` returns an HTML page instead of this JSON error, and the operation
        // of the route describes that HTML page.
        applies: |route| is_limited(route) && !route.is_page,
    },
    PipelineError {
        status: "431",
        name: "HeadersTooLarge",
        description: "The request's headers are too large",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "500",
        name: "InternalError",
        description: "The operation could not be completed",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "501",
        name: "NotImplemented",
        description: "The `Transfer-Encoding` is not `chunked`",
        ..PipelineError::OF_EVERY_ROUTE
    },
    PipelineError {
        status: "503",
        name: "Unavailable",
        description: "The mail server is starting or cannot be reached, or the service is busy; the client can retry",
        header: Some(("Retry-After", "RetryAfter")),
        ..PipelineError::OF_EVERY_ROUTE
    },
];

fn needs_credential(route: &Route) -> bool {
    route.access != Access::Public
}

/// Returns `true` if requests to a route count towards a rate limit. A route that needs a
/// credential always has a rate limit, because requests without a valid credential count towards a
/// separate limit.
fn is_limited(route: &Route) -> bool {
    needs_credential(route) || !route.bucket.is_empty() || route.verifies_body
}

/// Returns the components of the section `headers`.
pub(super) fn headers() -> Value {
    let integer = |description: &str| json!({ "description": description, "schema": { "type": "integer", "minimum": 0 } });
    let text =
        |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    json!({
        "Allow": text("The methods of the path, separated by commas"),
        "Challenge": text("The scheme of the credential, with the error or the missing scope (RFC 6750)"),
        "RateLimitLimit": integer("Requests per minute"),
        "RateLimitRemaining": integer("Requests that would be accepted now"),
        "RateLimitReset": integer("Time at which the full limit is available again, in Unix seconds"),
        "RequestId": text("The id of the request in the service's log"),
        "RetryAfter": integer("The number of seconds after which the client can repeat the request"),
    })
}

/// Returns the components of the section `responses`.
pub(super) fn components() -> Value {
    let responses = ERRORS.iter().map(|error| {
        let mut response = json!({
            "description": error.description,
            "content": { JSON: { "schema": { "$ref": ERROR } } },
        });
        let limited = (!UNCOUNTED.contains(&error.status)).then_some(RATE_LIMIT);
        let headers = limited.into_iter().flatten().chain([REQUEST_ID]);
        response["headers"] = headers.chain(error.header).map(header).collect();
        (error.name.to_owned(), response)
    });
    Value::Object(responses.collect())
}

/// Adds the errors of the request pipeline to the responses of an operation, and the headers of the
/// host to each response.
pub(super) fn complete(route: &Route, responses: &mut Map<String, Value>) {
    // If the operation describes the status 429, its handler counts requests towards a rate limit,
    // so its responses also have the rate-limit headers.
    let limited = is_limited(route) || responses.contains_key("429");
    for (status, response) in &mut *responses {
        let error = ERRORS.iter().find(|error| error.status == *status);
        let limited = limited.then_some(RATE_LIMIT);
        let headers = limited.into_iter().flatten().chain([REQUEST_ID]);
        let headers = headers.chain(error.and_then(|error| error.header));
        if let Some(members) = object_member(response, "headers") {
            for (name, component) in headers.map(header) {
                members.entry(name).or_insert(component);
            }
        }
        if error.is_some_and(|error| (error.applies)(route))
            && let Some(content) = object_member(response, "content")
        {
            add_error_schema(content);
        }
    }
    for error in ERRORS.iter().filter(|error| (error.applies)(route)) {
        let component = || json!({ "$ref": format!("#/components/responses/{}", error.name) });
        responses.entry(error.status).or_insert_with(component);
    }
}

/// Adds the error schema to the content of an error response that the operation describes.
fn add_error_schema(content: &mut Map<String, Value>) {
    let error = json!({ "$ref": ERROR });
    let media = content.entry(JSON).or_insert_with(|| json!({}));
    let Some(media) = media.as_object_mut() else {
        return;
    };
    let schema = match media.remove("schema") {
        None => error,
        Some(schema) if schema == error => schema,
        Some(schema) => json!({ "anyOf": [schema, error] }),
    };
    media.insert("schema".into(), schema);
}

/// Returns the member `name` of a response. If the member is missing, adds an empty object. Returns
/// `None` if the response is a reference.
fn object_member<'r>(response: &'r mut Value, name: &str) -> Option<&'r mut Map<String, Value>> {
    let response = response.as_object_mut()?;
    if response.contains_key("$ref") {
        return None;
    }
    let member = response.entry(name).or_insert_with(|| json!({}));
    member.as_object_mut()
}

fn header((name, component): (&str, &str)) -> (String, Value) {
    let reference = format!("#/components/headers/{component}");
    (name.to_owned(), json!({ "$ref": reference }))
}
