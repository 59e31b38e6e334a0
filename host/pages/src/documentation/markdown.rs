//! The pages of the documentation as plain Markdown, and `llms.txt`, which lists them for agents
//! (<https://llmstxt.org>).

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::OnceLock;

use bytes::{Buf as _, Bytes};
use http::{HeaderValue, Method, header};
use latchmail_core::codes;
use latchmail_core::error::{Failure, StartError};
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_http::route_group::{HostRoute, RouteGroup, host_route};
use latchmail_runtime::modules::Content;
use utoipa::OpenApi;

use super::respond;

/// The pages, compressed with Zstandard by the build script.
const COMPRESSED_PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages.zst"));

/// The decompressed pages by their names. The first request decompresses them.
static PAGES: OnceLock<BTreeMap<String, Bytes>> = OnceLock::new();

/// The list for agents. Its links are relative to the service.
const OVERVIEW: &str = include_str!("llms.txt");

#[derive(OpenApi)]
#[openapi(paths(document, overview))]
struct Description;

/// Returns the routes of the pages.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub(crate) fn route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: host_route(Method::GET, "/docs/{page}", "getDocument"),
                handler: |_, request| Box::pin(ready(document(request))),
            },
            HostRoute {
                route: host_route(Method::GET, "/llms.txt", "getOverview"),
                handler: |_, _| Box::pin(ready(overview())),
            },
        ],
        &Description::openapi(),
    )
}

/// Get a page of the documentation
///
/// Returns Markdown. `README.md` lists the pages.
#[utoipa::path(
    get,
    path = "/docs/{page}",
    operation_id = "getDocument",
    tag = "Service",
    extensions(("x-latchmail" = json!(true))),
    params(("page" = String, Path, description = "The name of the page, for example `http-api.md`")),
    responses(
        (status = 200, description = "The page", content_type = "text/markdown", body = String),
        (status = 404, description = "`There is no such route`", body = ref("#/components/schemas/Error"))
    )
)]
fn document(request: &Request) -> Result<Response, Rejection> {
    let name = request.path.first().map_or("", |(_, name)| name.as_str());
    let Some(page) = pages()?.get(name) else {
        return Err(Failure::not_found(codes::ROUTE_NOT_FOUND, "There is no such route").into());
    };
    Ok(text("text/markdown; charset=utf-8", page.clone()))
}

/// Get an overview of the documentation for agents
#[utoipa::path(
    get,
    path = "/llms.txt",
    operation_id = "getOverview",
    tag = "Service",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "The overview", content_type = "text/plain", body = String))
)]
#[expect(clippy::unnecessary_wraps, reason = "the signature of a handler")]
fn overview() -> Result<Response, Rejection> {
    let overview = Bytes::from_static(OVERVIEW.as_bytes());
    Ok(text("text/plain; charset=utf-8", overview))
}

fn text(media_type: &'static str, body: Bytes) -> Response {
    respond(
        [
            (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
            (
                header::CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=3600"),
            ),
        ],
        Content::Bytes(body),
    )
}

fn pages() -> Result<&'static BTreeMap<String, Bytes>, Failure> {
    if let Some(pages) = PAGES.get() {
        return Ok(pages);
    }
    let packed = zstd::decode_all(COMPRESSED_PAGES).map_err(Failure::internal)?;
    let pages = unpack(packed.into());
    let pages = pages.ok_or_else(|| Failure::internal("the packed documentation is damaged"))?;
    Ok(PAGES.get_or_init(|| pages))
}

/// Splits the pages of the build script.
fn unpack(mut packed: Bytes) -> Option<BTreeMap<String, Bytes>> {
    let mut pages = BTreeMap::new();
    while packed.has_remaining() {
        let name = line(&mut packed)?;
        let length: usize = line(&mut packed)?.parse().ok()?;
        if length > packed.len() {
            return None;
        }
        pages.insert(name, packed.split_to(length));
    }
    Some(pages)
}

/// Takes a line from the beginning.
fn line(packed: &mut Bytes) -> Option<String> {
    let end = packed.iter().position(|byte| *byte == b'\n')?;
    let line = packed.split_to(end);
    packed.advance(1);
    String::from_utf8(line.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_contains_every_page_and_the_overview_links_only_to_pages() {
        let pages = pages().unwrap();
        assert!(pages["README.md"].starts_with(b"# Documentation"));
        let links = OVERVIEW.split("](/docs/").skip(1);
        let links: Vec<&str> = links.filter_map(|link| link.split(')').next()).collect();
        assert!(links.len() > 10);
        for link in links {
            assert!(pages.contains_key(link), "{link}");
        }
    }

    #[test]
    fn damaged_pages_are_refused() {
        for packed in ["a", "a\n", "a\nb\n", "a\n9\nb", "\n"] {
            let packed = Bytes::from_static(packed.as_bytes());
            assert_eq!(unpack(packed), None);
        }
    }
}
