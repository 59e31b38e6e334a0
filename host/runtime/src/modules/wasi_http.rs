//! Calls standard components, which export `wasi:http/incoming-handler` 0.2. Converts requests and
//! responses between the host and `wasi:http`. The same limits apply as for modules.
//!
//! The outgoing requests of these components are in [`crate::api`].

use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use latchmail_bindings::exports::latchmail::host::module as wit;
use latchmail_bindings::latchmail::host::caller::{Host as _, Identity};
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use wasmtime::Store;
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::Proxy;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use super::limits::CpuTime;
use super::message::Request;
use super::sandbox::Sandbox;

/// The headers that describe the caller. Requests of public mounts do not have them.
const ACCOUNT: HeaderName = HeaderName::from_static("x-latchmail-account");
const CREDENTIAL: HeaderName = HeaderName::from_static("x-latchmail-credential");
const SCOPES: HeaderName = HeaderName::from_static("x-latchmail-scopes");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The path of the mount, with which a component can create links.
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The path below the mount. Routers of Spin read this header.
const SPIN_PATH: HeaderName = HeaderName::from_static("spin-path-info");

/// The prefixes of headers that only the host sets.
const RESERVED_PREFIXES: [&str; 3] = ["x-latchmail-", "x-forwarded-", "spin-"];

/// The headers that a component does not receive, because they contain credentials, or because they
/// belong to the connection or to a proxy.
const REMOVED: [HeaderName; 9] = [
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
    header::COOKIE,
    header::EXPECT,
    header::FORWARDED,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    HeaderName::from_static("x-real-ip"),
];

/// The authority of a request without a valid header `Host`.
const NO_HOST: HeaderValue = HeaderValue::from_static("localhost");

/// Calls a standard component. The path of the component's request is the path below the mount.
///
/// The inner error describes an invalid response. It follows the words "returned an invalid
/// response".
///
/// # Errors
/// Returns an error if the component traps, or if it exceeds a limit.
pub(super) async fn handle(
    (proxy, mount): (&Proxy, &str),
    store: &mut Store<Sandbox>,
    method: &Method,
    request: Request,
    max_response: usize,
    cpu: &mut CpuTime,
) -> wasmtime::Result<Result<wit::Response, String>> {
    let identity = store.data_mut().call.current().await?;
    let request = incoming(request, method, mount, &identity)?;
    let mut http = store.data_mut().http();
    let request = http.new_incoming_request(Scheme::Https, request)?;
    let (sender, receiver) = oneshot::channel();
    let outparam = http.new_response_outparam(sender)?;
    let handler = proxy.wasi_http_incoming_handler();
    let called = pin!(cpu.spend(handler.call_handle(&mut *store, request, outparam)));
    // The component writes the body of the response during the call. After the call, the rest of
    // the body is complete, so that one poll without the limits of tokio reads it.
    let response = pin!(unconstrained(response(receiver, max_response)));
    match select(called, response).await {
        Either::Left((called, response)) => {
            called?;
            let incomplete = || Err("it ended before its response was complete".into());
            Ok(response.now_or_never().unwrap_or_else(incomplete))
        }
        Either::Right((Ok(response), called)) => {
            called.await?;
            Ok(Ok(response))
        }
        Either::Right((Err(reason), _)) => Ok(Err(reason)),
    }
}

/// Converts a request.
fn incoming(
    request: Request,
    method: &Method,
    mount: &str,
    caller: &Identity,
) -> wasmtime::Result<http::Request<Full<bytes::Bytes>>> {
    // The router compares plain segments byte by byte, so the path starts with the mount.
    let path = request.uri.path().strip_prefix(mount).unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    let target = match request.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut headers = passed(&request.headers);
    let mut set = |name: HeaderName, value: &str| -> wasmtime::Result<()> {
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes())?);
        Ok(())
    };
    set(PREFIX, mount)?;
    set(SPIN_PATH, path)?;
    set(REQUEST_ID, &request.id)?;
    if !caller.address.is_empty() {
        set(ACCOUNT, &caller.address)?;
        set(CREDENTIAL, &caller.kind)?;
        set(SCOPES, &caller.scopes.join(" "))?;
    }
    if !request.body.is_empty() {
        headers.insert(header::CONTENT_LENGTH, request.body.len().into());
    }
    let mut incoming = http::Request::new(Full::new(request.body));
    *incoming.method_mut() = method.clone();
    *incoming.uri_mut() = target.parse()?;
    *incoming.headers_mut() = headers;
    Ok(incoming)
}

/// Returns the headers of a client's request that a component receives.
fn passed(headers: &HeaderMap) -> HeaderMap {
    let is_reserved = |name: &HeaderName| {
        let mut prefixes = RESERVED_PREFIXES.into_iter();
        prefixes.any(|prefix| name.as_str().starts_with(prefix))
    };
    let mut passed = HeaderMap::new();
    for (name, value) in headers {
        if !REMOVED.contains(name) && !is_reserved(name) {
            passed.append(name, value.clone());
        }
    }
    // `wasi:http` needs the authority, and removes the header.
    let host = passed.entry(header::HOST).or_insert(NO_HOST);
    if host.to_str().is_err() {
        *host = NO_HOST;
    }
    passed
}

/// The result that a component passes to `response-outparam.set`.
type Outcome = Result<http::Response<HyperOutgoingBody>, ErrorCode>;

/// Waits for the response of a component and reads its body. The error follows the words "returned
/// an invalid response".
async fn response(
    receiver: oneshot::Receiver<Outcome>,
    max_body: usize,
) -> Result<wit::Response, String> {
    let response = match receiver.await {
        Ok(Ok(response)) => response,
        Ok(Err(code)) => return Err(format!("the error {code:?}")),
        Err(_) => return Err("it dropped the `response-outparam`".into()),
    };
    let (head, body) = response.into_parts();
    let body = Limited::new(body, max_body).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            format!("a body of more than {max_body} bytes")
        } else {
            format!("an incomplete body: {error}")
        }
    })?;
    let mut headers = Vec::with_capacity(head.headers.len());
    for (name, value) in &head.headers {
        // The host sets the length itself.
        if name == header::CONTENT_LENGTH {
            continue;
        }
        let value = value
            .to_str()
            .map_err(|_| format!("value of header {name:?}"))?;
        headers.push((name.as_str().to_owned(), value.to_owned()));
    }
    Ok(wit::Response {
        status: head.status.as_u16(),
        headers,
        body: wit::Body::Bytes(body.to_bytes().into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(address: &str) -> Identity {
        Identity {
            kind: "session".into(),
            address: address.into(),
            admin: false,
            scopes: vec!["mail:read".into(), "mail:send".into()],
        }
    }

    fn received(uri: &str, headers: HeaderMap, caller: &Identity) -> http::request::Parts {
        let request = Request {
            uri: uri.parse().unwrap(),
            headers,
            ..Request::probe()
        };
        let incoming = incoming(request, &Method::POST, "/notes", caller).unwrap();
        incoming.into_parts().0
    }

    #[test]
    fn the_path_is_relative_to_the_mount_and_stays_encoded() {
        for (sent, expected) in [
            ("/notes", "/"),
            ("/notes/", "/"),
            ("/notes?a=b%20c&a", "/?a=b%20c&a"),
            ("/notes/a%2Fb//c/", "/a%2Fb//c/"),
            ("/notes//a", "//a"),
            ("https://mail.example.org/notes/a?b", "/a?b"),
        ] {
            let parts = received(sent, HeaderMap::new(), &caller(""));
            assert_eq!(parts.uri.path_and_query().unwrap(), expected);
            assert_eq!(parts.headers["x-forwarded-prefix"], "/notes");
            assert_eq!(parts.headers["spin-path-info"], parts.uri.path());
            assert_eq!(parts.method, Method::POST);
        }
    }

    #[test]
    fn a_client_cannot_set_the_headers_of_the_caller() {
        let mut forged = HeaderMap::new();
        for name in [
            "x-latchmail-account",
            "x-latchmail-credential",
            "x-latchmail-scopes",
            "x-latchmail-other",
            "x-forwarded-for",
            "spin-path-info",
            "x-request-id",
            "authorization",
            "cookie",
        ] {
            forged.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("forged"),
            );
        }
        forged.insert("x-signature", HeaderValue::from_static("1"));
        let anonymous = received("/notes", forged.clone(), &caller("")).headers;
        assert!(!anonymous.values().any(|value| value == "forged"));
        assert!(!anonymous.contains_key("x-latchmail-account"));
        assert_eq!(anonymous["x-signature"], "1");
        let known = received("/notes", forged, &caller("ada@example.org")).headers;
        assert!(!known.values().any(|value| value == "forged"));
        assert_eq!(known["x-latchmail-account"], "ada@example.org");
        assert_eq!(known["x-latchmail-credential"], "session");
        assert_eq!(known["x-latchmail-scopes"], "mail:read mail:send");
        assert_eq!(known["x-request-id"], "probe");
    }
}
