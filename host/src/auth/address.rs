//! Which addresses and user names there can be. Asks nobody whether they exist.

/// Names that nobody may register: RFC 2142's mailboxes, and those that people and mail systems take for the operator's.
const RESERVED: [&str; 21] = [
    "abuse",
    "admin",
    "administrator",
    "ftp",
    "hostmaster",
    "info",
    "mailer-daemon",
    "marketing",
    "news",
    "no-reply",
    "noc",
    "noreply",
    "postmaster",
    "root",
    "sales",
    "security",
    "support",
    "usenet",
    "uucp",
    "webmaster",
    "www",
];

const SHORTEST: usize = 2;
/// RFC 5321, section 4.5.3.1.1.
const LONGEST_LOCAL_PART: usize = 64;
/// RFC 5321, section 4.5.3.1.3, without the angle brackets.
const LONGEST_ADDRESS: usize = 254;
const LONGEST_LABEL: usize = 63;

/// The user name folded to lower case, where it may be registered (specification, section 4.2).
///
/// # Errors
/// The sentence that registration and the availability check answer.
pub fn username(name: &str) -> Result<String, &'static str> {
    let length = name.chars().count();
    let alphanumeric_at = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if length < SHORTEST {
        return Err("Username must be at least 2 characters");
    }
    if length > LONGEST_LOCAL_PART {
        return Err("Username must be at most 64 characters");
    }
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    {
        return Err("Username may contain only letters, digits, dots, hyphens and underscores");
    }
    if !alphanumeric_at(name.chars().next()) || !alphanumeric_at(name.chars().next_back()) {
        return Err("Username must start and end with a letter or a digit");
    }
    // RFC 5322, section 3.2.3: no dot-atom has two dots in a row.
    if name.contains("..") {
        return Err("Username must not contain two dots in a row");
    }
    let name = name.to_ascii_lowercase();
    if RESERVED.contains(&name.as_str()) {
        return Err("Username is reserved");
    }
    Ok(name)
}

/// The address folded to lower case, where it has the form of one that an account here can have: a dot-atom, `@`, and a domain
/// name (RFC 5321, section 4.1.2, without quoted local parts and address literals).
#[must_use]
pub fn fold(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    let atext = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let local_part = local.len() <= LONGEST_LOCAL_PART
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(atext));
    let label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let usable = address.len() <= LONGEST_ADDRESS && local_part && domain.split('.').all(label);
    usable.then(|| address.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_username_is_folded_to_lower_case() {
        for (name, folded) in [
            ("jo", "jo"),
            ("Ada.Lovelace", "ada.lovelace"),
            ("a-b_c.d", "a-b_c.d"),
            ("4u", "4u"),
            ("a--b", "a--b"),
            ("admins", "admins"),
            (&"x".repeat(64), &"x".repeat(64)),
        ] {
            assert_eq!(username(name).as_deref(), Ok(folded));
        }
    }

    #[test]
    fn a_username_that_cannot_be_is_refused_with_the_reason() {
        for (name, reason) in [
            ("", "at least 2"),
            ("a", "at least 2"),
            ("é", "at least 2"),
            (&"x".repeat(65), "at most 64"),
            ("a b", "only letters"),
            ("a@b", "only letters"),
            ("a+b", "only letters"),
            ("ada\n", "only letters"),
            ("ada\0", "only letters"),
            ("jörg", "only letters"),
            ("аda", "only letters"),
            (".ada", "start and end"),
            ("ada.", "start and end"),
            ("-ada", "start and end"),
            ("ada_", "start and end"),
            ("..", "start and end"),
            ("a..b", "two dots"),
            ("postmaster", "reserved"),
            ("PostMaster", "reserved"),
            ("No-Reply", "reserved"),
            ("www", "reserved"),
        ] {
            let answer = username(name).unwrap_err();
            assert!(answer.contains(reason), "{name:?}: {answer}");
        }
    }

    #[test]
    fn an_address_is_folded_to_lower_case() {
        for (address, folded) in [
            ("Ada@Example.ORG", "ada@example.org"),
            ("a.b+c@mail.example", "a.b+c@mail.example"),
            ("ada@localhost", "ada@localhost"),
            ("a@xn--bcher-kva.example", "a@xn--bcher-kva.example"),
        ] {
            assert_eq!(fold(address).as_deref(), Some(folded));
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "@",
            "ada",
            "ada@",
            "@example.org",
            "ada@example..org",
            "ada@.example.org",
            "ada@example.org.",
            "ada@-example.org",
            "a@b@example.org",
            ".ada@example.org",
            "ada.@example.org",
            "a..b@example.org",
            "a b@example.org",
            " ada@example.org",
            "ada@example.org ",
            "ada@exa mple.org",
            "ada@[127.0.0.1]",
            "\"ada\"@example.org",
            "Ada <ada@example.org>",
            "ada@example.org\0",
            "ada\r\n@example.org",
            "jörg@example.org",
            "ada@bücher.example",
            &format!("{}@example.org", "x".repeat(65)),
            &format!("ada@{}.org", "x".repeat(64)),
            &format!("ada@{}org", "x.".repeat(130)),
        ] {
            assert_eq!(fold(text), None, "{text:?}");
        }
    }
}
