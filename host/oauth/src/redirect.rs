//! Checks and compares redirect URIs (RFC 8252, section 7; RFC 9700, section 4.1). A redirect URI
//! is an https URL, a loopback URL, or a URI with an application's private scheme. The requested
//! URI must be identical to a registered URI, except for the port of a loopback URL.

use std::net::Ipv6Addr;
use std::num::NonZeroU16;

use url::{Host, Url};

/// The maximum length of a redirect URI, in bytes.
const LONGEST: usize = 2000;

/// Schemes that are not allowed as an application's private scheme, because browsers or operating
/// systems handle them.
const NOT_PRIVATE: [&str; 30] = [
    "about",
    "blob",
    "chrome",
    "chrome-extension",
    "data",
    "dav",
    "file",
    "filesystem",
    "ftp",
    "feed",
    "geo",
    "http",
    "https",
    "intent",
    "jar",
    "javascript",
    "mailto",
    "microsoft-edge",
    "moz-icon",
    "moz-extension",
    "resource",
    "search",
    "search-ms",
    "sms",
    "tel",
    "urn",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

const LOOPBACK_V4: &str = "http://127.0.0.1";
const LOOPBACK_V6: &str = "http://[::1]";

/// The form of a valid redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form<'a> {
    /// An https URL.
    Site,
    /// A loopback URL. `host` is the part of the URL before the port, with the scheme. `rest` is
    /// the part after the port.
    Loopback { host: &'a str, rest: &'a str },
    /// A URI with an application's private scheme.
    Application,
}

/// Checks a redirect URI.
///
/// # Errors
/// Returns a sentence for the client's developer if the URI violates a rule. The sentence states
/// the rule.
pub fn check(uri: &str) -> Result<(), &'static str> {
    form(uri).map(drop)
}

/// Returns `true` if the URI is a loopback URL. An application listens on any free port of a
/// loopback address.
#[must_use]
pub fn is_loopback(uri: &str) -> bool {
    matches!(form(uri), Ok(Form::Loopback { .. }))
}

/// Returns `true` if `requested` is identical to `registered`. Ignores the ports of loopback URLs,
/// because an application listens on any free port.
#[must_use]
pub fn matches(registered: &str, requested: &str) -> bool {
    match (form(registered), form(requested)) {
        (Ok(Form::Loopback { host, rest }), Ok(requested)) => {
            requested == (Form::Loopback { host, rest })
        }
        (Ok(_), Ok(_)) => registered == requested,
        _ => false,
    }
}

/// Returns the value of `form-action` in a content security policy that allows redirects to this
/// URI. In such a policy, the scheme `http:` also allows `https:` (CSP Level 3, section 6.7.2.9).
///
/// Chromium applies `form-action` to all redirects after a form is submitted, and a client can
/// redirect the user to another origin. So the value contains only the scheme of the URI.
#[must_use]
pub fn form_action(uri: &str) -> String {
    Url::parse(uri).map_or_else(|_| "'none'".into(), |url| format!("{}:", url.scheme()))
}

/// Returns a description of the redirect target for users.
#[must_use]
pub fn target(uri: &str) -> String {
    match (form(uri), Url::parse(uri)) {
        (Ok(Form::Site), Ok(url)) => url.origin().ascii_serialization(),
        (Ok(Form::Loopback { .. }), _) => "an application on this device".into(),
        (Ok(Form::Application), Ok(url)) => {
            format!("the application that opens “{}:” links", url.scheme())
        }
        _ => uri.to_owned(),
    }
}

/// Returns the URI with `parameters` added to its query.
#[must_use]
pub fn with_parameters(uri: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        query.append_pair(name, value);
    }
    let joint = match uri.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some((_, present)) if present.ends_with('&') => "",
        Some(_) => "&",
    };
    format!("{uri}{joint}{}", query.finish())
}

fn form(uri: &str) -> Result<Form<'_>, &'static str> {
    if uri.len() > LONGEST {
        return Err("A redirect URI must not exceed 2,000 characters");
    }
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
    if !uri.bytes().all(plain) {
        return Err(
            "A redirect URI must be an absolute URI in ASCII, without a fragment, spaces or backslashes",
        );
    }
    let url = Url::parse(uri).map_err(|_| "A redirect URI must be an absolute URI")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("A redirect URI must not contain a user name or password");
    }
    match url.scheme() {
        "https" => site(uri, &url),
        "http" => loopback(uri, &url),
        scheme
            if NOT_PRIVATE.contains(&scheme)
                || scheme.starts_with("ms-")
                || scheme.len() < 2
                || !uri.starts_with(scheme) =>
        {
            Err(
                "A redirect URI must start with https://, http://127.0.0.1, http://[::1] or the application's own scheme",
            )
        }
        _ => Ok(Form::Application),
    }
}

/// Checks an https URL. The host must be in normalized form and valid in a content security policy.
fn site<'a>(uri: &'a str, url: &Url) -> Result<Form<'a>, &'static str> {
    const WRITTEN: &str =
        "The host of a redirect URI must be in lower case and in ASCII, without percent-encoding";
    let host = url.host_str().ok_or(WRITTEN)?;
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let named = host.bytes().all(plain) || matches!(url.host(), Some(Host::Ipv6(_)));
    let rest = uri
        .strip_prefix("https://")
        .and_then(|rest| rest.strip_prefix(host));
    let ends = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '?']));
    if named && ends {
        Ok(Form::Site)
    } else {
        Err(WRITTEN)
    }
}

fn loopback<'a>(uri: &'a str, url: &Url) -> Result<Form<'a>, &'static str> {
    let is = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address == Ipv6Addr::LOCALHOST,
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            if name == "localhost" || name.ends_with(".localhost") {
                return Err(
                    "http://localhost can resolve to another host: use http://127.0.0.1 or http://[::1] with the port and path instead (RFC 8252, section 8.3)",
                );
            }
            false
        }
        None => false,
    };
    if !is {
        return Err(
            "A redirect URI without TLS must start with http://127.0.0.1 or http://[::1]; use https:// for any other host",
        );
    }
    // Only one notation of each loopback address is accepted.
    let (host, rest) = [LOOPBACK_V4, LOOPBACK_V6]
        .into_iter()
        .find_map(|host| Some((host, uri.strip_prefix(host)?)))
        .ok_or("A loopback redirect URI must start with http://127.0.0.1 or http://[::1]")?;
    let rest = match rest.strip_prefix(':') {
        Some(port) => {
            let digits = port.bytes().take_while(u8::is_ascii_digit).count();
            let (port, rest) = port.split_at(digits);
            if port.parse::<NonZeroU16>().is_err() {
                return Err("The port of a redirect URI must be from 1 to 65535");
            }
            rest
        }
        None => rest,
    };
    if rest.is_empty() || rest.starts_with(['/', '?']) {
        Ok(Form::Loopback { host, rest })
    } else {
        Err("A loopback redirect URI must start with http://127.0.0.1 or http://[::1]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_a_port_of_ones_own_machine_and_an_application_may_be_returned_to() {
        for uri in [
            "https://app.example/callback",
            "https://app.example:8443/callback?x=1",
            "https://app.example",
            "http://127.0.0.1:33418/",
            "http://127.0.0.1/callback",
            "http://127.0.0.1",
            "http://[::1]:8080/cb",
            "com.example.app:/oauth",
            "cursor://anysphere.cursor-retrieval/oauth/callback",
        ] {
            assert_eq!(check(uri), Ok(()), "{uri}");
        }
    }

    #[test]
    fn nothing_else_may() {
        for uri in [
            "",
            "callback",
            "//app.example/cb",
            "http://app.example/cb",
            "http://localhost:8080/cb",
            "http://localhost./cb",
            "http://app.localhost/cb",
            "http://127.0.0.2/cb",
            "http://127.1/cb",
            "http://0x7f.0.0.1/cb",
            "http://2130706433/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://127.0.0.1@evil.example/cb",
            "http://127.0.0.1:80@evil.example/cb",
            "http://127.0.0.1:99999/cb",
            "http://127.0.0.1:/cb",
            "http://[::ffff:127.0.0.1]/cb",
            "http://[0:0:0:0:0:0:0:1]/cb",
            "https://user@app.example/cb",
            "https://user:word@app.example/cb",
            "https://app.example/cb#fragment",
            "https://app.example/c b",
            "https://app.example\\@evil.example/",
            "https:/app.example/cb",
            "https:app.example/cb",
            "HTTPS://app.example/cb",
            "https://äpp.example/cb",
            "https://App.example/cb",
            "https://%61pp.example/cb",
            "https://a;sandbox/cb",
            "https://*/cb",
            "https://a,b/cb",
            "https:///app.example/cb",
            "http://127.0.0.1:0/cb",
            "ms-msdt:/id",
            "search-ms:query=x",
            "microsoft-edge:https://x/",
            "x:/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "mailto:a@b.example",
            "COM.example.app:/x",
        ] {
            assert!(check(uri).is_err(), "{uri}");
        }
        assert!(
            check("http://localhost:1/")
                .unwrap_err()
                .contains("http://127.0.0.1")
        );
        assert!(check(&format!("https://app.example/{}", "x".repeat(LONGEST))).is_err());
    }

    #[test]
    fn what_is_asked_for_is_what_was_registered_but_for_a_port_of_ones_own_machine() {
        let registered = "https://app.example/cb";
        assert!(matches(registered, registered));
        for other in [
            "https://app.example/cb/",
            "https://app.example/cb?x=1",
            "https://app.example/cb/../x",
            "https://app.example/cbx",
            "https://app.example/CB",
            "https://app.example/%63b",
            "https://app.example:443/cb",
            "https://app.example:8443/cb",
            "https://app.example.evil.example/cb",
            "https://evil.example/cb",
            "https://app.example@evil.example/cb",
            "https://app.example/cb#x",
            "http://app.example/cb",
        ] {
            assert!(!matches(registered, other), "{other}");
        }
        let registered = "http://127.0.0.1:1234/cb";
        for same in [
            "http://127.0.0.1:1234/cb",
            "http://127.0.0.1:9/cb",
            "http://127.0.0.1/cb",
        ] {
            assert!(matches(registered, same), "{same}");
        }
        for other in [
            "http://127.0.0.1:1234/",
            "http://127.0.0.1:1234/cb?x",
            "http://[::1]:1234/cb",
            "http://localhost:1234/cb",
            "http://127.0.0.1:1234@evil.example/cb",
            "https://127.0.0.1:1234/cb",
        ] {
            assert!(!matches(registered, other), "{other}");
        }
    }

    #[test]
    fn a_policy_names_the_scheme() {
        for (uri, expected) in [
            ("https://app.example:8443/cb?x", "https:"),
            ("http://127.0.0.1:33418/cb", "http:"),
            ("http://[::1]:8080/cb", "http:"),
            ("com.example.app:/cb", "com.example.app:"),
            ("cursor://x/cb", "cursor:"),
        ] {
            assert_eq!(form_action(uri), expected, "{uri}");
        }
    }

    #[test]
    fn parameters_are_added_to_what_is_there() {
        let added = |uri| with_parameters(uri, &[("code", "a b"), ("state", "&=#")]);
        assert_eq!(
            added("https://a.example/"),
            "https://a.example/?code=a+b&state=%26%3D%23"
        );
        assert_eq!(
            added("https://a.example/?x=1"),
            "https://a.example/?x=1&code=a+b&state=%26%3D%23"
        );
        assert_eq!(added("app:/cb?"), "app:/cb?code=a+b&state=%26%3D%23");
    }
}
