//! `POST /jmap/api`: runs the method calls of a request (RFC 8620, section 3).

use latchmail_sdk::{Failure, Reply, Request};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::args::Object;
use crate::context::Context;
use crate::error::MethodError;
use crate::limits::{MAX_CALLS, MAX_JSON_OBJECTS, MAX_JSON_VALUES, MAX_RESPONSES};
use crate::references::{self, Response};
use crate::{Capabilities, methods, session};

/// A JSON object.
#[derive(ToSchema)]
#[schema(value_type = Object)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct Json(Value);

/// An error of the whole request (RFC 8620, section 3.6.1).
struct Problem {
    kind: &'static str,
    detail: String,
    limit: Option<&'static str>,
}

impl Problem {
    fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            limit: None,
        }
    }

    fn limit(name: &'static str) -> Self {
        Self {
            limit: Some(name),
            ..Self::new("limit", format!("The request exceeds {name}"))
        }
    }

    /// Returns the response, as a problem (RFC 7807) and with the members of the service's errors.
    fn reply(self) -> Result<Reply, Failure> {
        let mut problem = json!({
            "type": format!("urn:ietf:params:jmap:error:{}", self.kind),
            "status": 400,
            "detail": self.detail,
            "error": self.detail,
            "code": crate::INVALID_REQUEST.as_str(),
        });
        if let Some(limit) = self.limit {
            problem["limit"] = limit.into();
        }
        Ok(Reply {
            content_type: "application/problem+json",
            ..Reply::with_status(400, &problem)?
        })
    }
}

/// A request to the API.
struct Calls {
    using: Vec<String>,
    calls: Vec<(String, Object, String)>,
    created: Option<Object>,
}

/// Call methods
///
/// Runs the method calls of a JMAP request, one after the other. The methods need the scopes of the
/// corresponding REST routes: without `mail:write`, changes return `accountReadOnly`.
#[utoipa::path(
    post,
    path = "/jmap/api",
    operation_id = "callJmap",
    tag = "JMAP",
    extensions(("x-latchmail" = json!(true))),
    request_body(content = inline(Json), description = "A `Request` (RFC 8620, section 3.3)"),
    responses(
        (status = 200, description = "A `Response` (RFC 8620, section 3.4)", body = inline(Json)),
        (status = 400, description = "The request is not valid", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn call(host: &impl Capabilities, request: &Request) -> Result<Reply, Failure> {
    let media = request.header("content-type");
    let parsed = if media.is_none_or(is_json) {
        parse(&request.body)
    } else {
        Err(Problem::new("notJSON", "The body must be application/json"))
    };
    let mut calls = match parsed {
        Ok(calls) => calls,
        Err(problem) => return problem.reply(),
    };
    let mut ctx = Context::new(host, &request.id);
    let has_created = calls.created.is_some();
    for (id, value) in calls.created.take().into_iter().flatten() {
        if let Value::String(value) = value {
            ctx.created.insert(id, value);
        }
    }
    let mut responses: Vec<Response> = Vec::new();
    let mut size = 0;
    for (name, mut args, id) in calls.calls {
        let result = match methods::find(&name, &calls.using) {
            None => Err(MethodError::new("unknownMethod")),
            Some(method) => {
                references::resolve(&mut args, &responses).and_then(|()| method(&mut ctx, &args))
            }
        };
        let implied = std::mem::take(&mut ctx.implied);
        let result = match result {
            Ok(value) => Ok((name, value)),
            Err(error) if error.is_credential_refused => {
                let missing = (latchmail_sdk::codes::NOT_FOUND, "Not found");
                let refused = latchmail_sdk::capability::Error::CredentialRefused;
                return Err(Failure::of(refused, missing, host));
            }
            Err(error) => Err(error),
        };
        let first = result.unwrap_or_else(|error| ("error".into(), error.to_json()));
        let implied = implied.into_iter();
        let implied = implied.map(|(name, value)| (name.to_owned(), value));
        for (name, value) in std::iter::once(first).chain(implied) {
            size += serialized_size(&value);
            if size > MAX_RESPONSES {
                // The method has been called, so the error is not that of the arguments.
                let text = "The responses exceed the limit";
                let error = MethodError::with("requestTooLarge", text).to_json();
                size -= serialized_size(&value);
                responses.push(("error".into(), error, id.clone()));
                continue;
            }
            responses.push((name, value, id.clone()));
        }
    }
    let responses: Vec<Value> = responses
        .into_iter()
        .map(|(name, value, id)| json!([name, value, id]))
        .collect();
    let mut response = json!({
        "methodResponses": responses,
        "sessionState": session::state(&ctx),
    });
    if has_created {
        response["createdIds"] = json!(ctx.created);
    }
    let reply = Reply::json(&response)?;
    Ok(reply.with("cache-control", "no-store"))
}

/// Returns whether a media type is that of JSON.
fn is_json(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Counts the bytes of a value without keeping its text.
fn serialized_size(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// Parses a request. An unknown member of the request is ignored.
fn parse(body: &[u8]) -> Result<Calls, Problem> {
    if !is_small(body) {
        return Err(Problem::limit("maxSizeRequest"));
    }
    let not_json = |_| Problem::new("notJSON", "The body is not JSON");
    let body: Value = serde_json::from_slice(body).map_err(not_json)?;
    let not_request = |what: &str| Problem::new("notRequest", what.to_owned());
    let Value::Object(mut body) = body else {
        return Err(not_request("The body must be an object"));
    };
    let Some(Value::Array(using)) = body.remove("using") else {
        return Err(not_request("using must be an array"));
    };
    let using: Option<Vec<String>> = using
        .into_iter()
        .map(|one| one.as_str().map(ToOwned::to_owned))
        .collect();
    let using = using.ok_or_else(|| not_request("using must contain strings"))?;
    if let Some(unknown) = using.iter().find(|one| !session::is_capability(one)) {
        let detail = format!("There is no capability {unknown}");
        return Err(Problem::new("unknownCapability", detail));
    }
    let Some(Value::Array(listed)) = body.remove("methodCalls") else {
        return Err(not_request("methodCalls must be an array"));
    };
    if listed.len() > MAX_CALLS {
        return Err(Problem::limit("maxCallsInRequest"));
    }
    let calls: Option<Vec<_>> = listed.into_iter().map(invocation).collect();
    let created = match body.remove("createdIds") {
        None | Some(Value::Null) => None,
        Some(Value::Object(created)) if created.values().all(Value::is_string) => Some(created),
        Some(_) => return Err(not_request("createdIds must be an object of ids")),
    };
    Ok(Calls {
        using,
        calls: calls
            .ok_or_else(|| not_request("A method call must have a name, arguments and id"))?,
        created,
    })
}

fn invocation(call: Value) -> Option<(String, Object, String)> {
    let Value::Array(call) = call else {
        return None;
    };
    let [name, args, id]: [Value; 3] = call.try_into().ok()?;
    match (name, args, id) {
        (Value::String(name), Value::Object(args), Value::String(id)) => Some((name, args, id)),
        _ => None,
    }
}

/// Returns whether the values of a JSON text fit into the memory of the sandbox.
fn is_small(json: &[u8]) -> bool {
    let (mut objects, mut values) = (0, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' => objects += 1,
            b',' | b'[' => values += 1,
            _ => {}
        }
    }
    objects <= MAX_JSON_OBJECTS && values <= MAX_JSON_VALUES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> &'static str {
        match parse(body.as_bytes()) {
            Ok(_) => "",
            Err(problem) => problem.kind,
        }
    }

    #[test]
    fn an_invalid_request_is_a_problem() {
        let call = r#"["Core/echo", {}, "c"]"#;
        let many = [call; MAX_CALLS + 1].join(",");
        for (body, kind) in [
            ("{", "notJSON"),
            ("[]", "notRequest"),
            (r#"{"using": []}"#, "notRequest"),
            (r#"{"using": [7], "methodCalls": []}"#, "notRequest"),
            (r#"{"using": [], "methodCalls": [["a", {}]]}"#, "notRequest"),
            (
                r#"{"using": [], "methodCalls": [["a", [], "c"]]}"#,
                "notRequest",
            ),
            (
                r#"{"using": ["urn:x"], "methodCalls": []}"#,
                "unknownCapability",
            ),
            (
                r#"{"using": [], "methodCalls": [], "createdIds": {"a": 7}}"#,
                "notRequest",
            ),
            (
                &format!(r#"{{"using": [], "methodCalls": [{many}]}}"#),
                "limit",
            ),
            (
                &format!("[{}0]", "{},".repeat(MAX_JSON_OBJECTS + 1)),
                "limit",
            ),
            (&format!("[{}0]", "0,".repeat(MAX_JSON_VALUES + 1)), "limit"),
            (r#"{"using": [], "methodCalls": []}"#, ""),
        ] {
            assert_eq!(problem(body), kind, "{}", &body[..body.len().min(60)]);
        }
    }

    #[test]
    fn commas_in_texts_do_not_count() {
        let text = format!(r#"{{"a": "{}\\\",{{"}}"#, ",".repeat(MAX_JSON_VALUES + 1));
        assert!(is_small(text.as_bytes()));
    }

    #[test]
    fn the_size_of_a_value_is_that_of_its_text() {
        let value = json!({ "a": ["\u{e9}\n", 1, null] });
        assert_eq!(serialized_size(&value), value.to_string().len());
    }
}
