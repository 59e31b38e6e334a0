//! The pages for people who open the service in a browser: the start page, and the API description
//! in the viewer Redoc.
//!
//! The page with the viewer runs scripts on the origin of the sign-in pages. Therefore the content
//! security policy of the page contains `sandbox`. The page's scripts have an opaque origin, so
//! they cannot read cookies or responses of the service, and cannot send forms. They also cannot
//! fetch the API description, so the page contains the description.

pub(crate) mod markdown;

use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use latchmail_bindings::{Blob, BlobSource, ByteStream};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::secrets;
use latchmail_http::App;
use latchmail_http::message::Response;
use latchmail_http::rejection::Rejection;
use latchmail_http::route_group::{HostRoute, RouteGroup, host_route};
use latchmail_runtime::modules::{Content, Route};
use maud::{DOCTYPE, PreEscaped, html};
use utoipa::OpenApi;

use crate::account;
use crate::sign_in::page_without_form;

const START: &str = "/";
const VIEWER: &str = "/docs";
const SCRIPT: &str = "/docs/redoc.js";

/// Redoc 2.5.2 from npm, compressed with Zstandard by the build script. This copy has one change.
/// It does not show the logo at the end of the menu, which is an image on another host. The content
/// security policy of the page forbids the image, and Redoc has no option to hide the logo.
const COMPRESSED_REDOC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/redoc.js.zst"));

/// The decompressed script. The first request for the script decompresses it, because most services
/// never send the script.
static REDOC: OnceLock<Bytes> = OnceLock::new();

/// The inline script that starts Redoc with the fonts of the user's system. `NONCE` is replaced
/// with the nonce of the page.
const START_VIEWER: &str = r"
const description = JSON.parse(document.getElementById('description').textContent);
const fontFamily = 'system-ui, sans-serif';
const theme = { typography: { fontFamily, headings: { fontFamily } } };
Redoc.init(description, { nonce: 'NONCE', hideDownloadButtons: true, theme }, document.getElementById('viewer'));
";

/// Marks the place in the page where the API description is inserted. The page contains no other
/// control characters.
const DESCRIPTION: &str = "\u{1}";

/// The maximum duration of a request.
const DEADLINE: Duration = Duration::from_secs(10);

/// Length of a nonce, in characters. 22 letters and digits contain 130 random bits.
const NONCE_LENGTH: usize = 22;

#[derive(OpenApi)]
#[openapi(paths(show_start, show_description, script))]
struct Description;

/// Returns the routes of the start page, the page with the viewer, and the script.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub(crate) fn route_group() -> Result<RouteGroup<App>, StartError> {
    let get = |path, operation, handler| HostRoute {
        route: Route {
            deadline: DEADLINE,
            ..host_route(Method::GET, path, operation)
        },
        handler,
    };
    RouteGroup::host(
        vec![
            get(START, "showStart", |app, _| {
                Box::pin(ready(show_start(app)))
            }),
            get(VIEWER, "showDescription", |app, _| {
                Box::pin(ready(show_description(app)))
            }),
            get(SCRIPT, "getDescriptionScript", |_, _| {
                Box::pin(ready(script()))
            }),
        ],
        &Description::openapi(),
    )
}

/// Show the start page
#[utoipa::path(
    get,
    path = "/",
    operation_id = "showStart",
    tag = "Service",
    responses((status = 200, description = "The page", content_type = "text/html", body = String))
)]
fn show_start(app: &App) -> Result<Response, Rejection> {
    let base = app.config.base_url();
    let body = html! {
        p { "This service gives programs and agents access to mailboxes, over HTTP." }
        dl {
            dt { "Your account" }
            dd { a href=(account::START) { (base) (account::START) } }
            dt { "Documentation of the API" }
            dd { a href=(VIEWER) { (base) (VIEWER) } }
            dt { "Description of the API for tools (OpenAPI)" }
            dd { a href="/api/openapi.json" { (base) "/api/openapi.json" } }
            dt { "Endpoint for agents (MCP)" }
            dd { (base) "/mcp" }
            dt { "Documentation in Markdown" }
            dd { a href="/docs/README.md" { (base) "/docs/README.md" } }
        }
    };
    page_without_form(app, StatusCode::OK, "An API for your mailbox", body)
}

/// Show the description of this API
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "showDescription",
    tag = "Service",
    responses((status = 200, description = "The page", content_type = "text/html", body = String))
)]
fn show_description(app: &App) -> Result<Response, Rejection> {
    let nonce = secrets::letters_and_digits(NONCE_LENGTH)?;
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "API – " (app.config.service_name) }
                style nonce=(*nonce) { "body { margin: 0; }" }
            }
            body {
                main #viewer {
                    noscript { "This page needs JavaScript. The description is also at " a href="/api/openapi.json" { "/api/openapi.json" } "." }
                }
                script #description type="application/json" nonce=(*nonce) { (DESCRIPTION) }
                script nonce=(*nonce) src=(SCRIPT) {}
                script nonce=(*nonce) { (PreEscaped(START_VIEWER.replace("NONCE", &nonce))) }
            }
        }
    };
    // Redoc adds two style elements without a nonce. The hashes allow these two elements.
    let policy = format!(
        "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox; default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}' \
         'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' \
         'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='; \
         img-src data:; worker-src blob:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
        *nonce
    );
    let policy = HeaderValue::from_str(&policy).map_err(Failure::internal)?;
    Ok(respond(
        [
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/html; charset=utf-8"),
            ),
            (header::CONTENT_SECURITY_POLICY, policy),
        ],
        with_description(&document.into_string(), app.http.table().description()),
    ))
}

/// Returns the page with the API description in place of `DESCRIPTION`. All responses share the
/// memory of the description, because many clients can read their responses slowly at the same
/// time.
fn with_description(document: &str, description: Bytes) -> Content {
    let (before, after) = document.split_once(DESCRIPTION).unwrap_or((document, ""));
    let chunks = Chunks([
        Bytes::copy_from_slice(before.as_bytes()),
        description,
        Bytes::copy_from_slice(after.as_bytes()),
    ]);
    let size = chunks.0.iter().map(|chunk| chunk.len() as u64).sum();
    Content::Blob(Blob::from_source(size, Arc::new(chunks)))
}

/// The text before the API description, the API description, and the text after it.
struct Chunks([Bytes; 3]);

impl BlobSource for Chunks {
    fn open(&self) -> ByteStream {
        stream::iter(self.0.clone().map(Ok)).boxed()
    }
}

/// Get the script of the page with the description
#[utoipa::path(
    get,
    path = "/docs/redoc.js",
    operation_id = "getDescriptionScript",
    tag = "Service",
    responses((status = 200, description = "The script", content_type = "text/javascript", body = String))
)]
fn script() -> Result<Response, Rejection> {
    let script = if let Some(script) = REDOC.get() {
        script.clone()
    } else {
        let script = zstd::decode_all(COMPRESSED_REDOC).map_err(Failure::internal)?;
        REDOC.get_or_init(|| script.into()).clone()
    };
    Ok(respond(
        [
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/javascript; charset=utf-8"),
            ),
            (
                header::CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=86400"),
            ),
            // The page has an opaque origin, so the browser treats the script as a resource of
            // another origin. The service's default value of this header is `same-origin`, with
            // which the browser would block the script.
            (
                HeaderName::from_static("cross-origin-resource-policy"),
                HeaderValue::from_static("cross-origin"),
            ),
        ],
        Content::Bytes(script),
    ))
}

fn respond<const N: usize>(headers: [(HeaderName, HeaderValue); N], body: Content) -> Response {
    Response {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter(headers),
        body,
    }
}
