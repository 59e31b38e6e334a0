//! Reads the metadata of a client. The metadata is the body of a registration request (RFC 7591,
//! section 2) or a metadata document.

use serde_json::{Map, Value};

use super::error::{Error, Refusal};
use super::{BY_CODE, BY_REFRESH_TOKEN, GRANT_TYPES, redirect};

/// The maximum number of redirect URIs of a client.
const MAX_REDIRECT_URIS: usize = 20;
/// The maximum total length of a client's redirect URIs, in bytes.
const MAX_REDIRECT_URI_BYTES: usize = 4096;
/// The maximum length of a client's name, in characters. Longer names are truncated.
const MAX_NAME: usize = 100;

/// Reads and checks the redirect URIs in a client's metadata.
pub(crate) fn redirect_uris(metadata: &Map<String, Value>) -> Result<Vec<String>, Error> {
    let refused = |why: String| Error::Refused(Refusal::new("invalid_redirect_uri", why));
    let uris = match metadata.get("redirect_uris") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(uris)) => uris,
        Some(_) => return Err(refused("redirect_uris must be an array".into())),
    };
    let length: usize = uris.iter().filter_map(Value::as_str).map(str::len).sum();
    if uris.len() > MAX_REDIRECT_URIS || length > MAX_REDIRECT_URI_BYTES {
        return Err(refused(format!(
            "redirect_uris must contain at most {MAX_REDIRECT_URIS} URIs and {MAX_REDIRECT_URI_BYTES} characters in total"
        )));
    }
    let read = |uri: &Value| {
        let uri = uri
            .as_str()
            .ok_or_else(|| refused("redirect_uris must contain strings".into()))?;
        redirect::check(uri).map_err(|why| refused(why.into()))?;
        Ok(uri.to_owned())
    };
    uris.iter().map(read).collect()
}

/// Returns the supported grant types in a client's metadata. If the metadata contains no grant
/// types, returns `authorization_code` and `refresh_token`.
pub(crate) fn grant_types(metadata: &Map<String, Value>) -> Result<Vec<&'static str>, Error> {
    let requested = match metadata.get("grant_types") {
        None | Some(Value::Null) => return Ok(vec![BY_CODE, BY_REFRESH_TOKEN]),
        Some(Value::Array(requested)) => requested,
        Some(_) => return Err(invalid_metadata("grant_types must be an array")),
    };
    let is_requested = |known: &&str| requested.iter().any(|one| one.as_str() == Some(*known));
    let supported: Vec<&'static str> = GRANT_TYPES.into_iter().filter(is_requested).collect();
    if supported.iter().any(|grant| *grant != BY_REFRESH_TOKEN) {
        Ok(supported)
    } else {
        Err(invalid_metadata(
            "grant_types must contain authorization_code or the device code grant",
        ))
    }
}

/// Returns a client's name in the form for users: on one line, without deceptive characters, and
/// truncated to [`MAX_NAME`] characters. Returns an empty string if no letter or digit remains.
pub(crate) fn client_name(given: &str) -> String {
    let shown = given.chars().filter(|c| !is_deceptive(*c));
    let text: String = shown.collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(MAX_NAME).collect();
    if name.chars().any(char::is_alphanumeric) {
        name
    } else {
        String::new()
    }
}

/// Returns `true` for control characters, characters without a width, and characters that change
/// the direction of text.
fn is_deceptive(c: char) -> bool {
    (c.is_control() && !c.is_whitespace())
        || latchmail_shape::invisible(c).is_some()
        // The blank Braille pattern, and code points that Unicode reserves for future invisible
        // characters.
        || matches!(c, '\u{2800}' | '\u{e0080}'..='\u{e0fff}')
}

/// Creates the error for invalid metadata other than redirect URIs.
pub(crate) fn invalid_metadata(why: &'static str) -> Error {
    Error::Refused(Refusal::new("invalid_client_metadata", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_one_line_without_deceptive_characters() {
        assert_eq!(client_name("  My\nagent\t2 "), "My agent 2");
        assert_eq!(
            client_name("Bank\u{202E}gnirahS\u{200B}\u{E0041}\u{7}"),
            "BankgnirahS"
        );
        assert_eq!(client_name(&"x".repeat(500)).len(), MAX_NAME);
        assert_eq!(client_name("Ärger"), "Ärger");
        for empty in ["", "  ", "\u{3164}\u{2800}", "…", "\u{E0041}"] {
            assert_eq!(client_name(empty), "", "{empty:?}");
        }
    }
}
