//! Requests to incoming webhooks of Slack.

use latchmail_sdk::capability::{Error, HttpClient, HttpRequest, HttpResponse};
use serde_json::json;

/// The time limit for a request, in milliseconds.
const TIMEOUT: u32 = 10_000;

/// Posts a text. A response with an error status is not an error of this function.
pub(crate) fn post(host: &impl HttpClient, url: &str, text: &str) -> Result<HttpResponse, Error> {
    host.fetch(&HttpRequest {
        method: "POST".into(),
        url: url.into(),
        headers: vec![("content-type".into(), "application/json".into())],
        body: json!({ "text": text }).to_string().into_bytes(),
        timeout: Some(TIMEOUT),
    })
}

/// Returns `true` if the webhook accepted the text.
pub(crate) fn is_accepted(response: &HttpResponse) -> bool {
    (200..300).contains(&response.status)
}

/// Escapes a text from outside, so that it contains no links and no mentions. Slack reads `&`, `<`
/// and `>` as markup. Mattermost also reads `@all` as a mention, so an invisible space follows each
/// `@`.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('@', "@\u{200b}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_contains_no_markup() {
        assert_eq!(escape("R&D <!channel>"), "R&amp;D &lt;!channel&gt;");
        assert_eq!(escape("@all"), "@\u{200b}all");
    }
}
