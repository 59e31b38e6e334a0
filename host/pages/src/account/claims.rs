//! Texts that someone else wrote, such as an agent or the sender of a message: shows characters
//! that readers cannot see, and finds texts that claim to be from this service.

use latchmail_http::App;
use latchmail_shape::invisible;
use maud::{Markup, html};

/// The mark for an invisible character.
const MARK: char = '\u{fffd}';

/// Returns a text in which each invisible character is replaced with a mark, because such
/// characters can hide words or change their order.
pub(super) fn visible(text: &str) -> String {
    let is_hidden =
        |c: char| invisible(c).is_some() || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    text.chars()
        .map(|c| if is_hidden(c) { MARK } else { c })
        .collect()
}

/// Renders a text of someone else. The browser isolates its direction from the text around it.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// Returns `true` if one of the texts contains the name of this service or the host of its URL.
/// White space, punctuation, invisible characters and the case of letters do not matter.
pub(super) fn mention_service(app: &App, texts: &[&str]) -> bool {
    let base_url = app.config.base_url();
    let host = base_url.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.split([':', '/']).next().unwrap_or_default();
    contain_name(&[&app.config.service_name, host], texts)
}

fn contain_name(names: &[&str], texts: &[&str]) -> bool {
    let names: Vec<String> = names.iter().map(|name| letters(name)).collect();
    texts.iter().any(|text| {
        let text = letters(text);
        let mut names = names.iter().filter(|name| !name.is_empty());
        names.any(|name| text.contains(name.as_str()))
    })
}

fn letters(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_names_the_service_is_found_in_any_form() {
        let names = ["Latchmail", "mail.example.org", ""];
        for text in [
            "A message from Latchmail",
            "L A T C H M A I L support",
            "Latch\u{200b}mail",
            "https://mail.example.org/account",
        ] {
            assert!(contain_name(&names, &["", text]), "{text}");
        }
        for text in ["", "Lunch on Monday?", "mail from example"] {
            assert!(!contain_name(&names, &[text]), "{text}");
        }
    }

    #[test]
    fn invisible_characters_are_marked() {
        assert_eq!(
            visible("a\u{202e}b\u{200b}c\u{7}\nd\te"),
            "a\u{fffd}b\u{fffd}c\u{fffd}\nd\te"
        );
    }
}
