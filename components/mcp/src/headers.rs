//! Checks the HTTP headers of a request: the media types and the protocol revision. In the newest
//! revision, headers also repeat the method and the tool name, so proxies do not need to read the
//! body. The method and the tool name in the headers must match the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_sdk::Request;
use serde_json::Value;

use crate::revision::Revision;
use crate::rpc::{Params, RpcError};

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// The name of the parameter with metadata about the request. The newest revision requires this
/// parameter. The `META_…` constants are the names of its fields.
const META: &str = "_meta";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Returns whether the content type is JSON in UTF-8.
pub(crate) fn is_json(request: &Request) -> bool {
    let declared = request.header("content-type").unwrap_or_default();
    let (kind, parameters) = declared.split_once(';').unwrap_or((declared, ""));
    let charset = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let named = name.trim().eq_ignore_ascii_case("charset");
        named.then(|| value.trim().trim_matches('"'))
    });
    kind.trim().eq_ignore_ascii_case("application/json")
        && charset.is_none_or(|charset| charset.eq_ignore_ascii_case("utf-8"))
}

/// Returns whether the client accepts JSON. The protocol also requires clients to accept event
/// streams. This function does not check that requirement, because the server sends no event
/// streams.
pub(crate) fn accepts_json(request: &Request) -> bool {
    let mut accepted = request.headers.iter().filter(|(name, _)| name == "accept");
    let accepts = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let refused = parts.any(|part| {
            part.strip_prefix("q=")
                .is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0))
        });
        let matches = ["application/json", "application/*", "*/*"]
            .iter()
            .any(|known| kind.eq_ignore_ascii_case(known));
        matches && !refused
    };
    let any = accepted.clone().next().is_some();
    !any || accepted.any(|(_, ranges)| ranges.split(',').any(accepts))
}

/// Returns the value of a header without surrounding spaces. Fails if the header occurs more than
/// once.
fn single<'r>(request: &'r Request, name: &'static str) -> Result<Option<&'r str>, RpcError> {
    let mut values = request.headers.iter().filter(|(known, _)| known == name);
    let first = values
        .next()
        .map(|(_, value)| value.trim_matches([' ', '\t']));
    match values.next() {
        None => Ok(first),
        Some(_) => Err(RpcError::header_mismatch(format!(
            "The header {name} occurs more than once"
        ))),
    }
}

/// Returns the revision in the header. Returns 2025-03-26 if the header is absent, because that
/// revision does not define the header.
///
/// # Errors
/// Returns an error if the revision is not supported, or if the header occurs more than once.
pub(crate) fn revision(request: &Request) -> Result<Revision, RpcError> {
    match single(request, VERSION)? {
        None => Ok(Revision::R2025_03_26),
        Some(name) => Revision::named(name).ok_or_else(|| RpcError::unsupported_version(name)),
    }
}

/// Returns the revision in the message's `_meta`. Without that field, returns the revision from
/// [`revision`].
///
/// # Errors
/// Returns an error if the revision is not supported. If `_meta` contains a revision, also returns
/// an error if the header is missing or different.
pub(crate) fn revision_of(request: &Request, params: &Params) -> Result<Revision, RpcError> {
    let named = params
        .get(META)
        .and_then(|meta| meta.get(META_VERSION))
        .and_then(Value::as_str);
    let Some(named) = named else {
        return revision(request);
    };
    match single(request, VERSION)? {
        Some(header) if header == named => revision(request),
        Some(_) => Err(RpcError::header_mismatch(
            "Header mismatch: MCP-Protocol-Version and the protocol version of _meta are not the same",
        )),
        None => Err(RpcError::header_mismatch(
            "Header mismatch: MCP-Protocol-Version is missing",
        )),
    }
}

/// Checks a request of the newest revision: the required fields of `_meta`, and the headers for
/// method and name.
///
/// # Errors
/// Returns an error if a field or header is missing, or if a header does not match the body.
pub(crate) fn check(request: &Request, method: &str, params: &Params) -> Result<(), RpcError> {
    let invalid =
        |what: &str| RpcError::malformed(format!("Invalid params: {what} is missing or malformed"));
    let meta = params.get(META).and_then(Value::as_object);
    let meta = meta.ok_or_else(|| invalid("_meta"))?;
    if !meta.get(META_VERSION).is_some_and(Value::is_string) {
        return Err(invalid(META_VERSION));
    }
    if !meta.get(META_CAPABILITIES).is_some_and(Value::is_object) {
        return Err(invalid(META_CAPABILITIES));
    }
    if !meta.get(META_CLIENT).is_none_or(Value::is_object) {
        return Err(invalid(META_CLIENT));
    }
    if single(request, METHOD)? != Some(method) {
        return Err(RpcError::header_mismatch(
            "Header mismatch: Mcp-Method is missing or is not the body's method",
        ));
    }
    let named = match method {
        "tools/call" | "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => return Ok(()),
    };
    let header = single(request, NAME)?.and_then(decoded);
    match named.and_then(Value::as_str) {
        Some(name) if header.as_deref() != Some(name) => Err(RpcError::header_mismatch(
            "Header mismatch: Mcp-Name is missing or differs from the name in the body",
        )),
        _ => Ok(()),
    }
}

/// Returns whether the client can ask the user to open a URL (elicitation in the mode `url`). Only
/// the newest revision has the capabilities of the client in each request.
pub(crate) fn opens_urls(revision: Revision, params: &Params) -> bool {
    let elicitation = params
        .get(META)
        .and_then(|meta| meta.get(META_CAPABILITIES))
        .and_then(|capabilities| capabilities.get("elicitation"));
    let url = elicitation.and_then(|elicitation| elicitation.get("url"));
    revision.is_stateless() && url.is_some_and(Value::is_object)
}

/// Decodes a header value. Only values of the form `=?base64?…?=` are encoded. Returns `None` if
/// the base64 is invalid or if the decoded bytes are not UTF-8.
fn decoded(value: &str) -> Option<String> {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
