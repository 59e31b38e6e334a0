//! Finds the message ids in the fields Message-ID, In-Reply-To and References (RFC 5322, section
//! 3.6.4).
//!
//! Some programs write other text into these fields, for example `null`, `Your message of Tuesday`
//! or the address of a person. If such text were an id, it would link messages that are not
//! related. Therefore the functions reject text that has not the form of an id.

/// Returns the ids of a decoded field, with the angle brackets that they have in the field.
pub(super) fn ids(field: &str) -> Vec<String> {
    if field.contains('<') {
        return field.split_inclusive('>').filter_map(in_brackets).collect();
    }
    let field = without_comments(field);
    let words: Vec<&str> = field
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '"' | '>'))
        .filter(|word| !word.is_empty())
        .collect();
    // A field with words that cannot be ids is a sentence, and an address in a sentence is not an
    // id.
    let are_ids = match *words {
        [word] => is_address(word) || has_digit(word),
        _ => words.iter().all(|word| is_address(word)),
    };
    let words = words.iter().filter(|_| are_ids);
    words.map(|word| without_white_space(word)).collect()
}

/// Returns the id at the end of `piece`, which ends with `>`.
fn in_brackets(piece: &str) -> Option<String> {
    let (before, id) = piece.strip_suffix('>')?.rsplit_once('<')?;
    let id = id.trim();
    let is_id = match id.split_once('@') {
        // If a sentence or a name without a date precedes the brackets, they contain the address of
        // a person.
        Some((local, _)) => {
            !before.contains(char::is_alphanumeric) || has_digit(before) || has_digit(local)
        }
        None => has_digit(id) && !id.contains(' '),
    };
    // Folding can insert white space into an id.
    is_id.then(|| format!("<{}>", without_white_space(id)))
}

fn without_white_space(id: &str) -> String {
    let is_kept = |c: &char| !c.is_whitespace() && !c.is_control();
    id.chars().filter(is_kept).collect()
}

/// Removes comments (RFC 5322, section 3.2.2).
fn without_comments(field: &str) -> String {
    let mut depth = 0_usize;
    let is_kept = |c: &char| {
        let before = depth;
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before == 0 && depth == 0 && *c != ')'
    };
    field.chars().filter(is_kept).collect()
}

fn is_address(word: &str) -> bool {
    word.split_once('@')
        .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
}

fn has_digit(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::Header;
    use super::*;

    #[test]
    fn text_that_is_no_id_is_ignored() {
        for field in [
            "",
            "null",
            "undefined",
            "None",
            "N/A",
            "@",
            "<>",
            "<null>",
            "<undefined>",
            "<N/A>",
            "< >",
            "<no id of 2026>",
            "Your message of \"Tue, 3 Mar 2020 10:00:00 +0100\"",
            "Your message of Tue, 3 Mar 2020 from a@b.example",
            "a@b.example wrote on 3 March",
            "Ada Lovelace <ada@outside.test>",
            "\"Ada Lovelace\" <ada@outside.test>",
            "Message from Ada <ada@outside.test>",
            "(a1@b.example)",
        ] {
            assert_eq!(ids(field), [""; 0], "{field}");
        }
    }

    #[test]
    fn ids_are_found_with_and_without_brackets() {
        for (field, expected) in [
            ("<a@x>", &["<a@x>"][..]),
            (
                "<a@x><b@x>,<c@\r\n x> <d@x>",
                &["<a@x>", "<b@x>", "<c@x>", "<d@x>"],
            ),
            ("<20261119>", &["<20261119>"]),
            ("a@x", &["a@x"]),
            ("a@x, b@x", &["a@x", "b@x"]),
            ("20261119", &["20261119"]),
            ("a@x (Ada's message of 3 March)", &["a@x"]),
            (
                "Your message of \"Thu, 19 Nov 2026.\" <first@x>",
                &["<first@x>"],
            ),
            ("Your message of Thursday <1.first@x>", &["<1.first@x>"]),
            ("<a@x> from Ada on 3 March", &["<a@x>"]),
            (
                "Message from Ada <ada@x> of \"3 March\" <id@x>",
                &["<id@x>"],
            ),
        ] {
            assert_eq!(ids(field), expected, "{field}");
        }
    }

    #[test]
    fn encoded_words_are_decoded() {
        let header = Header::of(
            b"Message-ID: =?utf-8?Q?=3Ca=40x=3E?=\r\n\
              In-Reply-To: =?utf-8?B?PGJAeD4=?=\r\n\
              References: =?us-ascii?Q?=3Cb=40?=\r\n =?us-ascii?Q?x=3E_=3Cc=40x=3E?= <d@x>\r\n",
            1000,
        );
        assert_eq!(header.message_id, "<a@x>");
        assert_eq!(header.in_reply_to.as_deref(), Some("<b@x>"));
        assert_eq!(header.references, ["<b@x>", "<c@x>", "<d@x>"]);
    }
}
