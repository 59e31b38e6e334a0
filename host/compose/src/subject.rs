//! The subject of a reply or forward.

use latchmail_search::threads::without_reply_prefixes;

/// Maximum length of a subject, in characters. The API has a limit of 998 characters.
const MAX_SUBJECT: usize = 990;

/// Returns the subject with one prefix. Prefixes of all languages that the thread rules know are
/// removed, also the other kind: a reply to a forwarded message is a reply.
pub(crate) fn subject(original: &str, is_reply: bool) -> String {
    let prefix = if is_reply { "Re:" } else { "Fwd:" };
    let base = without_reply_prefixes(original);
    let subject = format!("{prefix} {base}");
    match subject.char_indices().nth(MAX_SUBJECT) {
        Some((end, _)) => format!("{}\u{2026}", &subject[..end]),
        None => subject.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_one_prefix() {
        for (original, reply, forward) in [
            ("Plan", "Re: Plan", "Fwd: Plan"),
            ("AW: Re: WG: Plan", "Re: Plan", "Fwd: Plan"),
            ("[list] RE: Plan", "Re: [list] Plan", "Fwd: [list] Plan"),
            ("", "Re:", "Fwd:"),
        ] {
            assert_eq!(subject(original, true), reply);
            assert_eq!(subject(original, false), forward);
        }
        let long = subject(&"\u{e9}".repeat(2000), true);
        assert_eq!(long.chars().count(), MAX_SUBJECT + 1);
    }
}
