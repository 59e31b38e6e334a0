//! Resolves link targets in the same way as browsers. For example, `https:/x`, `https:\\x` and
//! `//x` all lead to the host `x`.

use url::Url;

/// The maximum length of a displayed target, in characters.
const MAX_TARGET: usize = 4000;

/// Returns the target of a link. Returns `None` if the link does not lead outside the message.
/// `base` is the message's base URL for relative links.
pub(crate) fn target(href: &str, base: Option<&Url>) -> Option<String> {
    let href = href.trim_matches(|c: char| c <= ' ');
    if href.is_empty() || href.starts_with('#') {
        return None;
    }
    let url = match Url::parse(href) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) => match base {
            Some(base) => base.join(href).ok()?,
            // A link such as `//host/path` has no scheme. Browsers use the scheme of the page that
            // displays the mail.
            None if starts_a_host(href) => {
                Url::parse("https://mail.invalid/").ok()?.join(href).ok()?
            }
            None => return None,
        },
        // Browsers ignore an invalid URL, but other programs might open it.
        Err(_) => return Some(shortened(href)),
    };
    if matches!(
        url.scheme(),
        "javascript" | "vbscript" | "data" | "cid" | "mid" | "about" | "blob"
    ) {
        return None;
    }
    let whole = url.as_str();
    let is_same = whole == href || whole.strip_suffix('/') == Some(href);
    Some(shortened(if is_same { href } else { whole }))
}

/// Parses the base URL for relative links. `href` is the attribute of a `base` element.
pub(crate) fn base(href: &str) -> Option<Url> {
    let url = Url::parse(href.trim_matches(|c: char| c <= ' ')).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// Returns whether the displayed text of a link equals the target.
pub(crate) fn names(shown: &str, target: &str) -> bool {
    let plain = target.strip_prefix("mailto:").unwrap_or(target);
    let same = |target: &str| shown == target || shown == target.trim_end_matches('/');
    same(target) || same(plain)
}

fn starts_a_host(href: &str) -> bool {
    let mut slashes = href.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r'));
    (0..2).all(|_| slashes.next().is_some_and(|c| matches!(c, '/' | '\\')))
}

/// Returns the target as one line without spaces. The target therefore cannot imitate the
/// surrounding text.
fn shortened(target: &str) -> String {
    let mut line = String::new();
    for c in target.chars().filter(|c| !c.is_control()).take(MAX_TARGET) {
        match c {
            '<' => line.push_str("%3C"),
            '>' => line.push_str("%3E"),
            c if c.is_whitespace() => line.push_str("%20"),
            c => line.push(c),
        }
    }
    line
}
