//! The notices of the service in a mailbox, which only the owner sees.

/// The keyword of notices. Grants do not see messages with this keyword, and can neither set nor
/// remove it.
pub const NOTICE_KEYWORD: &str = "$LatchmailNotice";

/// Returns `true` if a message with these flags is a notice of the service to the owner.
#[must_use]
pub fn is_notice(flags: &[String]) -> bool {
    flags
        .iter()
        .any(|flag| flag.eq_ignore_ascii_case(NOTICE_KEYWORD))
}

/// Like [`is_notice`], for flags that are separated by spaces.
pub(crate) fn has_notice_keyword(flags: &str) -> bool {
    let mut flags = flags.split(' ');
    flags.any(|flag| flag.eq_ignore_ascii_case(NOTICE_KEYWORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_of_notices_has_any_case() {
        let flags = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        assert!(is_notice(&flags(&["\\Seen", "$latchmailnotice"])));
        assert!(!is_notice(&flags(&["\\Seen"])));
        assert!(has_notice_keyword("\\Seen $latchmailnotice"));
        assert!(!has_notice_keyword("\\Seen"));
    }
}
