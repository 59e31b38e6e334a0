//! What the transport says in headers: the media types, the revision, and what a request is about, which the newest revision has there too, so that
//! what stands between client and server need not read the body. Where the two differ, nothing is done.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_sdk::Request;
use serde_json::Value;

use crate::revision::Revision;
use crate::rpc::{Params, RpcError};

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Where a request of the newest revision says what it is.
const META: &str = "_meta";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Whether the body is declared to be JSON in UTF-8.
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

/// Whether the client takes JSON. The protocol's clients say that they take event streams too, of which there are none; one that does not say so is
/// served all the same.
pub(crate) fn takes_json(request: &Request) -> bool {
    let mut said = request.headers.iter().filter(|(name, _)| name == "accept");
    let takes = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let refused = parts.any(|part| {
            part.strip_prefix("q=")
                .is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0))
        });
        let fits = ["application/json", "application/*", "*/*"]
            .iter()
            .any(|known| kind.eq_ignore_ascii_case(known));
        fits && !refused
    };
    let any = said.clone().next().is_some();
    !any || said.any(|(_, ranges)| ranges.split(',').any(takes))
}

/// A header that is there once, without the spaces around it.
fn single<'r>(request: &'r Request, name: &'static str) -> Result<Option<&'r str>, RpcError> {
    let mut values = request.headers.iter().filter(|(known, _)| known == name);
    let first = values
        .next()
        .map(|(_, value)| value.trim_matches([' ', '\t']));
    match values.next() {
        None => Ok(first),
        Some(_) => Err(RpcError::header_mismatch(format!(
            "The header {name} is there more than once"
        ))),
    }
}

/// The revision that a header names; the one from before the header where there is none.
///
/// # Errors
/// One that is not spoken.
pub(crate) fn revision(request: &Request) -> Result<Revision, RpcError> {
    match single(request, VERSION)? {
        None => Ok(Revision::R2025_03_26),
        Some(name) => Revision::named(name).ok_or_else(|| RpcError::unsupported_version(name)),
    }
}

/// The revision that a message is of.
///
/// # Errors
/// One that is not spoken; a header that says otherwise than the body, or is missing.
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

/// Checks what every request of the newest revision has: what it is in `_meta`, and what it is about in headers.
///
/// # Errors
/// What is missing, or differs.
pub(crate) fn check(request: &Request, method: &str, params: &Params) -> Result<(), RpcError> {
    let lacking =
        |what: &str| RpcError::malformed(format!("Invalid params: {what} is missing or malformed"));
    let meta = params.get(META).and_then(Value::as_object);
    let meta = meta.ok_or_else(|| lacking("_meta"))?;
    if !meta.get(META_VERSION).is_some_and(Value::is_string) {
        return Err(lacking(META_VERSION));
    }
    if !meta.get(META_CAPABILITIES).is_some_and(Value::is_object) {
        return Err(lacking(META_CAPABILITIES));
    }
    if !meta.get(META_CLIENT).is_none_or(Value::is_object) {
        return Err(lacking(META_CLIENT));
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
            "Header mismatch: Mcp-Name is missing or is not the body's name",
        )),
        _ => Ok(()),
    }
}

/// A value as it was before it was made fit for a header; none where it is none.
fn decoded(value: &str) -> Option<String> {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
