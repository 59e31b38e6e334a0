//! Reads the fields of mailing lists: List-Id (RFC 2919), List-Unsubscribe (RFC 2369) and
//! List-Unsubscribe-Post (RFC 8058).

use super::in_angle_brackets;
use crate::bounds;

/// The schemes of URLs that a client can open to unsubscribe.
const SCHEMES: [&str; 3] = ["https:", "http:", "mailto:"];

/// The value of a List-Unsubscribe-Post field (RFC 8058, section 3.1).
const ONE_CLICK: &str = "List-Unsubscribe=One-Click";

/// The mailing list that sent a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailingList {
    /// The identifier without angle brackets.
    pub id: Option<String>,
    /// The URLs with which a recipient unsubscribes, in the order of preference. The URLs come from
    /// the sender.
    pub unsubscribe: Vec<String>,
    /// `true` if a POST request to the first `https` URL unsubscribes.
    pub one_click: bool,
}

impl MailingList {
    /// Reads the unfolded fields. Returns `None` if they contain neither an identifier nor a URL.
    pub(super) fn of(id: &str, unsubscribe: &str, post: &str) -> Option<Self> {
        let id = in_angle_brackets(id).filter(|id| is_id(id));
        let unsubscribe: Vec<String> = urls(unsubscribe).take(bounds::LIST_URLS).collect();
        let is_https = |url: &String| scheme(url) == Some("https:");
        let one_click = post.trim().eq_ignore_ascii_case(ONE_CLICK);
        (id.is_some() || !unsubscribe.is_empty()).then(|| Self {
            id: id.map(ToOwned::to_owned),
            one_click: one_click && unsubscribe.iter().any(is_https),
            unsubscribe,
        })
    }
}

fn is_id(id: &str) -> bool {
    let is_part = |c: char| !c.is_whitespace() && !c.is_control();
    (1..=bounds::LIST_ID).contains(&id.len()) && id.chars().all(is_part)
}

/// Returns the URLs in angle brackets. Folding can insert white space into a URL (RFC 2369, section
/// 2).
fn urls(field: &str) -> impl Iterator<Item = String> {
    let pieces = field.split('<').skip(1);
    pieces.filter_map(|piece| {
        let (url, _) = piece.split_once('>')?;
        let url: String = url.chars().filter(|c| !c.is_whitespace()).collect();
        let is_plain = url.len() <= bounds::LIST_URL && !url.chars().any(char::is_control);
        (is_plain && scheme(&url).is_some()).then_some(url)
    })
}

fn scheme(url: &str) -> Option<&'static str> {
    let has = |scheme: &&str| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    SCHEMES.into_iter().find(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_list_are_read() {
        let list = MailingList::of(
            "Ada's letters <letters.example.org>",
            "<https://example.org/u?a=1&b= 2>, (or by mail) <MAILTO:leave@example.org>",
            "list-unsubscribe=one-click",
        );
        let list = list.unwrap();
        assert_eq!(list.id.as_deref(), Some("letters.example.org"));
        let urls = ["https://example.org/u?a=1&b=2", "MAILTO:leave@example.org"];
        assert_eq!(list.unsubscribe, urls);
        assert!(list.one_click);
        let list = MailingList::of("letters.example.org", "", "").unwrap();
        assert_eq!(list.id.as_deref(), Some("letters.example.org"));
    }

    #[test]
    fn one_click_needs_an_https_url() {
        for url in ["<http://example.org>", "<mailto:a@example.org>"] {
            assert!(!MailingList::of("", url, ONE_CLICK).unwrap().one_click);
        }
        let list = MailingList::of("", "<https://example.org>", "yes").unwrap();
        assert!(!list.one_click);
    }

    #[test]
    fn other_urls_and_malformed_identifiers_are_left_out() {
        let long = format!("<https://example.org/{}>", "a".repeat(bounds::LIST_URL));
        for url in [
            "",
            "https://a",
            "<javascript:alert(1)>",
            "<data:,x>",
            "<https://a",
            &long,
        ] {
            assert_eq!(MailingList::of("", url, ONE_CLICK), None, "{url}");
        }
        for id in ["", "<>", "Two words", "<a b>", "<a", &"a".repeat(256)] {
            assert_eq!(MailingList::of(id, "", ""), None, "{id}");
        }
        let many = "<https://a>".repeat(20);
        let list = MailingList::of("", &many, "").unwrap();
        assert_eq!(list.unsubscribe.len(), bounds::LIST_URLS);
    }
}
