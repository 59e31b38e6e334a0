//! The references of a message to the original (RFC 5322, section 3.6.4).

use latchmail_mime::Header;

/// Maximum number of references. The first reference is kept, because it identifies the thread.
const MAX_REFERENCES: usize = 100;

/// Maximum total length of the references, in bytes.
const MAX_LENGTH: usize = 16 * 1024;

/// Maximum length of a Message-ID, in bytes: the header field must fit into a line of 998 bytes
/// (RFC 5322, section 2.1.1).
const MAX_ID: usize = 985;

/// Returns a Message-ID if it is valid.
pub(crate) fn message_id(id: &str) -> Option<String> {
    let inner = id.strip_prefix('<')?.strip_suffix('>')?;
    let is_valid = |b: u8| b.is_ascii_graphic() && !matches!(b, b'<' | b'>');
    (!inner.is_empty() && id.len() <= MAX_ID && inner.bytes().all(is_valid)).then(|| id.to_owned())
}

/// Returns the references of the original, or its In-Reply-To if it has none, followed by its
/// Message-ID. Invalid and repeated Message-IDs are omitted.
pub(crate) fn references(original: &Header) -> Vec<String> {
    let own = message_id(&original.message_id);
    let mut ids: Vec<String> = Vec::new();
    for id in original.references.iter().filter_map(|id| message_id(id)) {
        if !ids.contains(&id) && own.as_ref() != Some(&id) {
            ids.push(id);
        }
        if ids.len() > MAX_REFERENCES * 2 {
            // Comparisons of all references would take quadratic time.
            ids.remove(1);
        }
    }
    if ids.is_empty() {
        let parent = original.in_reply_to.as_deref().and_then(message_id);
        ids.extend(parent.filter(|id| own.as_ref() != Some(id)));
    }
    ids.extend(own);
    let excess = ids.len().saturating_sub(MAX_REFERENCES);
    if excess > 0 {
        ids.drain(1..=excess);
    }
    let length = |ids: &[String]| ids.iter().map(|id| id.len() + 1).sum::<usize>();
    while ids.len() > 2 && length(&ids) > MAX_LENGTH {
        ids.remove(1);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(id: &str, in_reply_to: Option<&str>, references: &[&str]) -> Header {
        Header {
            message_id: id.into(),
            in_reply_to: in_reply_to.map(Into::into),
            references: references.iter().map(|id| (*id).to_owned()).collect(),
            ..Header::default()
        }
    }

    #[test]
    fn the_references_end_with_the_original() {
        for (original, expected) in [
            (
                header("<3@x>", Some("<2@x>"), &["<1@x>", "<2@x>"]),
                &["<1@x>", "<2@x>", "<3@x>"][..],
            ),
            (header("<3@x>", Some("<2@x>"), &[]), &["<2@x>", "<3@x>"]),
            (header("<3@x>", None, &[]), &["<3@x>"]),
            (header("", None, &["<1@x>"]), &["<1@x>"]),
            (header("", None, &[]), &[]),
            (
                header("<3@x>", None, &["<1@x>", "<3@x>", "<1@x>", "<2@x>"]),
                &["<1@x>", "<2@x>", "<3@x>"],
            ),
            (header("<\u{fc}@x>", None, &["<a b>", "<1@x>"]), &["<1@x>"]),
        ] {
            assert_eq!(references(&original), expected);
        }
    }

    #[test]
    fn the_first_and_the_last_references_are_kept() {
        let ids: Vec<String> = (0..5000).map(|n| format!("<{n}@x>")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let found = references(&header("<own@x>", None, &ids));
        assert_eq!(found.len(), MAX_REFERENCES);
        assert_eq!(
            (found[0].as_str(), found[99].as_str()),
            ("<0@x>", "<own@x>")
        );
        assert_eq!(found[98], "<4999@x>");
        let long = format!("<{}@x>", "a".repeat(900));
        let ids: Vec<String> = (0..60)
            .map(|n| long.replacen('a', &n.to_string(), 1))
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let found = references(&header("<own@x>", None, &ids));
        assert_eq!(found[0], ids[0]);
        assert!(found.iter().map(String::len).sum::<usize>() <= MAX_LENGTH);
    }
}
