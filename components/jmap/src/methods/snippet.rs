//! `SearchSnippet/get` (RFC 8621, section 5): the parts of emails with the words of a search.

use serde_json::{Value, json};

use super::email_query::words;
use crate::Capabilities;
use crate::args::{Args, Object};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::ids;
use crate::limits::MAX_GET;

/// The maximum number of emails in one request, because their texts are read.
const MAX_EMAILS: usize = 100;
/// The maximum length of a preview, in bytes (RFC 8621, section 5).
const MAX_PREVIEW: usize = 255;
/// The number of characters before the first match.
const BEFORE: usize = 60;

/// `SearchSnippet/get`.
pub(super) fn get<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let args = &Args::new(ctx, args, &["filter", "emailIds"])?;
    let requested = args.texts("emailIds")?;
    let requested =
        requested.ok_or_else(|| MethodError::invalid("emailIds must be an array of strings"))?;
    if requested.len() > MAX_EMAILS.min(MAX_GET) {
        return Err(MethodError::new("requestTooLarge"));
    }
    let (mut subject_words, mut body_words) = (Vec::new(), Vec::new());
    if let Some(filter) = args.object("filter")? {
        collect(filter, &mut subject_words, &mut body_words, 0)?;
    }
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    for id in requested {
        let uid = ids::number(ctx.resolve(id));
        let found = uid.map(|uid| ctx.host.get_message(uid));
        let detail = match found {
            None | Some(Err(latchmail_sdk::capability::Error::NotFound)) => {
                not_found.push(id);
                continue;
            }
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(detail)) => detail,
        };
        let subject = mark(&detail.summary.subject, &subject_words, usize::MAX);
        let text = detail.text.as_deref().unwrap_or(&detail.summary.preview);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let preview = mark(&text, &body_words, MAX_PREVIEW);
        list.push(json!({ "emailId": id, "subject": subject, "preview": preview }));
    }
    let not_found = (!not_found.is_empty()).then_some(not_found);
    Ok(json!({
        "accountId": ctx.account,
        "list": list,
        "notFound": not_found,
    }))
}

/// Collects the words of a filter that can be in the subject and in the text.
fn collect(
    filter: &Object,
    subject: &mut Vec<String>,
    body: &mut Vec<String>,
    depth: usize,
) -> Result<(), MethodError> {
    if depth > 20 {
        return Err(MethodError::with(
            "unsupportedFilter",
            "The filter is too deep",
        ));
    }
    if let Some(conditions) = filter.get("conditions").and_then(Value::as_array) {
        if filter.get("operator").and_then(Value::as_str) == Some("NOT") {
            return Ok(());
        }
        for condition in conditions.iter().filter_map(Value::as_object) {
            collect(condition, subject, body, depth + 1)?;
        }
        return Ok(());
    }
    for (name, value) in filter {
        let found = value.as_str().map(words).unwrap_or_default();
        if matches!(name.as_str(), "text" | "subject") {
            subject.extend(found.iter().map(|word| word.to_lowercase()));
        }
        if matches!(name.as_str(), "text" | "body") {
            body.extend(found.iter().map(|word| word.to_lowercase()));
        }
    }
    subject.truncate(50);
    body.truncate(50);
    Ok(())
}

/// Returns the part of a text with the first match, as HTML with the matches in `<mark>`. Returns
/// `None` if nothing matches. `max` is the maximum length of the result in bytes.
fn mark(text: &str, words: &[String], max: usize) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let lower: Vec<char> = chars.iter().copied().map(self::lower).collect();
    let words = words
        .iter()
        .map(|word| word.chars().map(self::lower).collect());
    let words: Vec<Vec<char>> = words.collect();
    let match_at = |at: usize| {
        let is_start = at == 0 || !chars[at - 1].is_alphanumeric();
        let found = words
            .iter()
            .find(|word| is_start && lower[at..].starts_with(word));
        found.map(Vec::len).filter(|length| *length > 0)
    };
    let first = (0..chars.len()).find(|at| match_at(*at).is_some())?;
    let start = if max == usize::MAX {
        0
    } else {
        first.saturating_sub(BEFORE)
    };
    let mut html = String::new();
    let mut at = start;
    while at < chars.len() {
        let length = match_at(at);
        let end = at + length.unwrap_or(1);
        let mut piece = String::new();
        for c in &chars[at..end] {
            match c {
                '&' => piece.push_str("&amp;"),
                '<' => piece.push_str("&lt;"),
                '>' => piece.push_str("&gt;"),
                c => piece.push(*c),
            }
        }
        if length.is_some() {
            piece = format!("<mark>{piece}</mark>");
        }
        if html.len() + piece.len() > max {
            break;
        }
        html.push_str(&piece);
        at = end;
    }
    Some(html)
}

/// Returns a character in lower case, if that is one character.
fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_and_the_rest_is_escaped() {
        let words = ["tea".to_owned(), "green tea".to_owned()];
        for (text, expected) in [
            (
                "A <b> Tea & more",
                Some("A &lt;b&gt; <mark>Tea</mark> &amp; more"),
            ),
            ("steam", None),
            ("", None),
        ] {
            assert_eq!(mark(text, &words, usize::MAX).as_deref(), expected);
        }
        let long = format!("{} tea {}", "x ".repeat(100), "y ".repeat(300));
        let preview = mark(&long, &words, MAX_PREVIEW).unwrap();
        assert!(preview.len() <= MAX_PREVIEW && preview.contains("<mark>tea</mark>"));
    }

    #[test]
    fn the_words_come_from_the_conditions() {
        let filter = json!({ "operator": "AND", "conditions": [
            { "text": "Green" },
            { "operator": "NOT", "conditions": [{ "body": "black" }] },
            { "subject": "\"hot tea\"", "from": "bo" },
        ] });
        let (mut subject, mut body) = (Vec::new(), Vec::new());
        collect(filter.as_object().unwrap(), &mut subject, &mut body, 0).unwrap();
        assert_eq!(subject, ["green", "hot tea"]);
        assert_eq!(body, ["green"]);
    }
}
