//! Where a link goes, as a browser reads it: `https:/x`, `https:\\x` and `//x` lead to the host `x`, too.

use url::Url;

/// The longest target that is shown.
const LONGEST: usize = 4000;

/// Returns the target of a link as people get there, or `None` if it leads nowhere outside the message. `base` is where the message says that its relative
/// links begin.
pub(super) fn target(href: &str, base: Option<&Url>) -> Option<String> {
    let href = href.trim_matches(|c: char| c <= ' ');
    if href.is_empty() || href.starts_with('#') {
        return None;
    }
    let url = match Url::parse(href) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) => match base {
            Some(base) => base.join(href).ok()?,
            // A mail is read on a page of a mail client.
            None if starts_a_host(href) => {
                Url::parse("https://mail.invalid/").ok()?.join(href).ok()?
            }
            None => return None,
        },
        // A browser does not follow it, but another program might.
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

/// What relative links of a message begin with: that of its first `base`.
pub(super) fn base(href: &str) -> Option<Url> {
    let url = Url::parse(href.trim_matches(|c: char| c <= ' ')).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// Whether text that is shown as a link says where it goes.
pub(super) fn says(shown: &str, target: &str) -> bool {
    let plain = target.strip_prefix("mailto:").unwrap_or(target);
    let same = |target: &str| shown == target || shown == target.trim_end_matches('/');
    same(target) || same(plain)
}

fn starts_a_host(href: &str) -> bool {
    let mut slashes = href.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r'));
    (0..2).all(|_| slashes.next().is_some_and(|c| matches!(c, '/' | '\\')))
}

/// One line without spaces, so that nothing in it reads like the text around it.
fn shortened(target: &str) -> String {
    let mut line = String::new();
    for c in target.chars().filter(|c| !c.is_control()).take(LONGEST) {
        match c {
            '<' => line.push_str("%3C"),
            '>' => line.push_str("%3E"),
            c if c.is_whitespace() => line.push_str("%20"),
            c => line.push(c),
        }
    }
    line
}
