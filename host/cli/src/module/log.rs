//! `latchmail module log`: prints recent log entries of a module.

use std::io::Write as _;
use std::path::Path;

use http::Method;
use latchmail_terminal::output::{escape, print_lines};
use serde_json::Value;
use url::form_urlencoded;

use super::client::send;

/// Prints all log entries of a module, or only the entries of `request`. `module` is the URL path
/// of the module.
pub(super) async fn show(
    socket: &Path,
    module: &str,
    request: Option<&str>,
    json: bool,
) -> anyhow::Result<()> {
    let mut path = format!("{module}/log");
    if let Some(request) = request {
        path.push('?');
        let query = path.len();
        let mut pairs = form_urlencoded::Serializer::for_suffix(path, query);
        path = pairs.append_pair("request", request).finish();
    }
    let response = send(socket, Method::GET, &path, None).await?;
    let entries = response["entries"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if json {
        return print_lines(entries.iter().map(Value::to_string));
    }
    if entries.is_empty() {
        writeln!(std::io::stderr(), "no entries")?;
    }
    print_lines(entries.iter().flat_map(lines))
}

/// Formats a log entry as lines. The first line contains the entry, and each further line contains
/// a function of the backtrace.
fn lines(entry: &Value) -> Vec<String> {
    let text = |key: &str| entry[key].as_str().map(escape).unwrap_or_default();
    let request = match text("request") {
        none if none.is_empty() => "-".to_owned(),
        request => request,
    };
    let mut lines = vec![format!(
        "{} {:<5} {request} {}",
        text("at"),
        text("level"),
        text("message")
    )];
    let frames = entry["backtrace"].as_array().into_iter().flatten();
    let frames = frames.filter_map(Value::as_str).map(escape);
    lines.extend(frames.map(|frame| format!("    {frame}")));
    lines
}
