//! Makes texts from the mail server safe for display.

/// Returns the text on one line, without its IMAP response code and without control characters. The
/// result has at most 200 characters.
#[must_use]
pub(crate) fn sanitize(text: &str) -> String {
    let sentence = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(_, sentence)| sentence),
        None => text,
    };
    let words: Vec<&str> = sentence
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(200).collect()
}
