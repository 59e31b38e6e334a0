//! Derives the label of a web session from the User-Agent header, so that users can recognize their
//! sessions. Labels must not be used for access decisions, because clients choose the User-Agent.

/// Label of a session whose User-Agent is missing or unknown.
const UNNAMED: &str = "Web session";

/// Maximum length of a program's name in characters.
const LONGEST: usize = 32;

/// Pairs of a substring of the User-Agent and the name of a browser. Specific substrings are first,
/// because many browsers also send the substring of another browser.
const BROWSERS: [(&str, &str); 11] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Safari/", "Safari"),
];

/// Pairs of a substring of the User-Agent and the name of an operating system. Specific substrings
/// are first.
const SYSTEMS: [(&str, &str); 8] = [
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
    ("FreeBSD", "FreeBSD"),
];

/// Returns the label of a session. For a browser, the label contains the browser and the operating
/// system (`Firefox on Linux`). For another program, the label is the program's name (`curl`).
/// Without either name, the label is `Web session`.
///
/// A label has at most 32 characters: ASCII letters, digits, spaces, dots, hyphens and underscores.
#[must_use]
pub fn label(user_agent: Option<&str>) -> String {
    let user_agent = user_agent.unwrap_or_default();
    if !user_agent.starts_with("Mozilla/") {
        return program(user_agent).unwrap_or(UNNAMED).to_owned();
    }
    match (marked(user_agent, &BROWSERS), marked(user_agent, &SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) => UNNAMED.to_owned(),
    }
}

fn marked<'a>(user_agent: &str, marks: &[(&str, &'a str)]) -> Option<&'a str> {
    marks
        .iter()
        .find(|(mark, _)| user_agent.contains(mark))
        .map(|(_, name)| *name)
}

/// Returns the name of the first product in the header (RFC 9110, section 10.1.5). Returns `None`
/// if the name is too long or contains other characters than letters, digits, dots, hyphens and
/// underscores.
fn program(user_agent: &str) -> Option<&str> {
    let name = user_agent.split(['/', ' ', '(', ';']).next()?;
    let plain = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_called_after_its_client() {
        for (user_agent, expected) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/145.0 Mobile/15E148 Safari/605.1.15",
                "Firefox on iOS",
            ),
            ("curl/8.16.0", "curl"),
            ("python-requests/2.32.5", "python-requests"),
            ("Thunderbird", "Thunderbird"),
            ("node", "node"),
            ("Mozilla/5.0 (compatible)", "Web session"),
            ("Mozilla/5.0 Firefox/1.0", "Firefox"),
            ("", "Web session"),
            ("   ", "Web session"),
            ("<script>alert(1)</script>", "Web session"),
            ("\u{202e}lruc/8", "Web session"),
            ("a\u{7}b/1", "Web session"),
            (&"x".repeat(33), "Web session"),
        ] {
            assert_eq!(label(Some(user_agent)), expected, "{user_agent}");
        }
        assert_eq!(label(None), "Web session");
    }
}
