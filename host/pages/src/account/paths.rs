//! The paths of the owner's pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(crate) const START: &str = "/account";
pub(super) const STYLE: &str = "/account/style.css";
pub(crate) const SIGN_IN: &str = "/account/sign-in";
pub(super) const SIGN_OUT: &str = "/account/sign-out";
pub(crate) const GRANTS: &str = "/account/grants";
pub(super) const HOLDS: &str = "/account/holds";
pub(super) const APP_PASSWORDS: &str = "/account/app-passwords";
pub(super) const SESSIONS: &str = "/account/sessions";
pub(super) const ALIASES: &str = "/account/aliases";
pub(super) const TWO_FACTOR: &str = "/account/two-factor";
pub(super) const MODULES: &str = "/account/modules";

/// The maximum length of a path to which the sign-in returns, in bytes.
const MAX_NEXT: usize = 200;

/// The characters of an id that are percent-encoded in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Returns the path of the page of an item. `list` is the path of the list with the item.
pub(super) fn of(list: &str, id: &str) -> String {
    format!("{list}/{}", utf8_percent_encode(id, ENCODED))
}

/// Returns the URL of the sign-in page that returns to the page `next` of this site.
pub(super) fn sign_in(next: &str) -> String {
    match local_path(Some(next)) {
        START => SIGN_IN.to_owned(),
        next => format!(
            "{SIGN_IN}?next={}",
            utf8_percent_encode(next, NON_ALPHANUMERIC)
        ),
    }
}

/// Returns the path of an owner's page to which the sign-in returns. For any other text, returns
/// the path of the first page, because the sign-in must not redirect to other sites.
pub(crate) fn local_path(next: Option<&str>) -> &str {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_');
    let is_own = |path: &&str| {
        let rest = path.strip_prefix(START);
        rest.is_some_and(|rest| rest.starts_with('/'))
            && path.len() <= MAX_NEXT
            && path.chars().all(is_plain)
            && !path.starts_with(SIGN_IN)
    };
    next.filter(is_own).unwrap_or(START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_in_returns_only_to_owners_pages() {
        for path in ["/account/holds", "/account/grants/a-1_B/policy"] {
            assert_eq!(local_path(Some(path)), path);
        }
        let long = format!("/account/{}", "a".repeat(MAX_NEXT));
        for other in [
            "",
            "/account",
            "//evil.test",
            "https://evil.test/account/holds",
            "/accounts/holds",
            "/account@evil.test",
            "/account/../login",
            "/account/holds?x=1",
            "/account/holds\r\nX: 1",
            "/account/sign-in",
            "/account/sign-out/../x",
            &long,
        ] {
            assert_eq!(local_path(Some(other)), START, "{other}");
        }
        assert_eq!(local_path(None), START);
        assert_eq!(sign_in("/account"), "/account/sign-in");
        assert_eq!(
            sign_in("/account/holds/h1"),
            "/account/sign-in?next=%2Faccount%2Fholds%2Fh1"
        );
    }

    #[test]
    fn an_id_is_one_segment_of_a_path() {
        assert_eq!(of(HOLDS, "a-1_B"), "/account/holds/a-1_B");
        assert_eq!(of(HOLDS, "a/../b"), "/account/holds/a%2F%2E%2E%2Fb");
    }
}
