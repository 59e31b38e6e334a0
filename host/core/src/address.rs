//! Checks the syntax of mail addresses, user names and domains. Does not check whether an address
//! or a domain exists.

use crate::{Code, codes};

/// Names that users cannot register. The list contains the mailbox names of RFC 2142 and other
/// names that users expect to belong to the operator.
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
/// Maximum length of a local part, in characters (RFC 5321, section 4.5.3.1.1).
const LONGEST_LOCAL_PART: usize = 64;
/// Maximum length of an address without angle brackets, in bytes (RFC 5321, section 4.5.3.1.3).
const LONGEST_ADDRESS: usize = 254;
/// Maximum length of a domain in text form without the trailing dot, in bytes (RFC 1035, section
/// 2.3.4).
const LONGEST_DOMAIN: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The reason why a local part is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Short,
    Long,
    Characters,
    Ends,
    Dots,
    Reserved,
}

/// Checks a local part in lower case. Returns the first problem, or `None` if the local part is
/// valid.
fn fault(name: &str) -> Option<Fault> {
    let length = name.chars().count();
    let alphanumeric_at = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let allowed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
    if length < SHORTEST {
        Some(Fault::Short)
    } else if length > LONGEST_LOCAL_PART {
        Some(Fault::Long)
    } else if !name.chars().all(allowed) {
        Some(Fault::Characters)
    } else if !alphanumeric_at(name.chars().next()) || !alphanumeric_at(name.chars().next_back()) {
        Some(Fault::Ends)
    } else if name.contains("..") {
        // A dot-atom does not contain two dots in a row (RFC 5322, section 3.2.3).
        Some(Fault::Dots)
    } else if RESERVED.contains(&name) {
        Some(Fault::Reserved)
    } else {
        None
    }
}

/// Checks a user name for registration. Returns the name in lower case.
///
/// # Errors
/// Returns the code and the error text for the client if the syntax is invalid or the name is
/// reserved.
pub fn username(name: &str) -> Result<String, (Code, &'static str)> {
    let name = name.to_ascii_lowercase();
    let text = match fault(&name) {
        None => return Ok(name),
        Some(Fault::Short) => {
            let text = "Username must be at least 2 characters";
            return Err((codes::USERNAME_TOO_SHORT, text));
        }
        Some(Fault::Long) => "Username must be at most 64 characters",
        Some(Fault::Characters) => {
            "Username may contain only letters, digits, dots, hyphens and underscores"
        }
        Some(Fault::Ends) => "Username must start and end with a letter or a digit",
        Some(Fault::Dots) => "Username must not contain two dots in a row",
        Some(Fault::Reserved) => "Username is reserved",
    };
    Err((codes::INVALID_USERNAME, text))
}

/// Checks the local part of an alias. Rejects upper case, because the service does not change the
/// names of aliases. If `reserved` is `true`, rejects reserved names. Pass `false` for an alias on
/// an account's own domain.
///
/// # Errors
/// Returns the error text for the client if the local part is not allowed.
pub fn alias_name(name: &str, reserved: bool) -> Result<(), &'static str> {
    match fault(name) {
        Some(Fault::Short | Fault::Long) => Err("name must be 2 to 64 characters"),
        Some(Fault::Characters) => {
            Err("name may contain only lower-case letters, digits, dots, hyphens and underscores")
        }
        Some(Fault::Ends) => Err("name must start and end with a letter or a digit"),
        Some(Fault::Dots) => Err("name must not contain two dots in a row"),
        Some(Fault::Reserved) if reserved => Err("This name is reserved"),
        None | Some(Fault::Reserved) => Ok(()),
    }
}

/// Returns an address in lower case if it consists of a dot-atom, `@` and a domain name (RFC 5321,
/// section 4.1.2). Returns `None` for all other forms, such as quoted local parts and address
/// literals.
#[must_use]
pub fn fold(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    let atext = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let local_part = local.len() <= LONGEST_LOCAL_PART
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(atext));
    let usable = address.len() <= LONGEST_ADDRESS && local_part && is_domain(domain);
    usable.then(|| address.to_ascii_lowercase())
}

/// Returns a domain in lower case and ASCII form (RFC 5890), or `None` if its syntax is invalid.
/// Does not check whether the domain exists or who owns it.
#[must_use]
pub fn fold_domain(domain: &str) -> Option<String> {
    let domain = idna::domain_to_ascii(domain).ok()?;
    is_domain(&domain).then_some(domain)
}

fn is_domain(domain: &str) -> bool {
    let label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.len() <= LONGEST_DOMAIN && domain.split('.').all(label)
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
            assert_eq!(username(name).ok().as_deref(), Some(folded));
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
            let (_, answer) = username(name).unwrap_err();
            assert!(answer.contains(reason), "{name:?}: {answer}");
        }
    }

    #[test]
    fn an_alias_has_a_name_in_lower_case_or_none() {
        for name in [
            "jo",
            "ada.lovelace",
            "a-b_c.d",
            "4u",
            "admins",
            &"x".repeat(64),
        ] {
            assert_eq!(alias_name(name, true), Ok(()), "{name}");
        }
        for (name, reason) in [
            ("", "2 to 64"),
            ("a", "2 to 64"),
            (&"x".repeat(65), "2 to 64"),
            ("Ada", "lower-case"),
            ("a b", "lower-case"),
            ("a@b", "lower-case"),
            ("a+b", "lower-case"),
            ("ada\0", "lower-case"),
            ("jörg", "lower-case"),
            ("аda", "lower-case"),
            ("ＡＤＡ", "lower-case"),
            ("-ada", "start and end"),
            ("ada.", "start and end"),
            ("a..b", "two dots"),
        ] {
            for reserved in [true, false] {
                let answer = alias_name(name, reserved).unwrap_err();
                assert!(answer.contains(reason), "{name:?}: {answer}");
            }
        }
        assert!(
            alias_name("postmaster", true)
                .unwrap_err()
                .contains("reserved")
        );
        assert_eq!(alias_name("postmaster", false), Ok(()));
    }

    #[test]
    fn a_domain_is_folded_to_lower_case_and_ascii() {
        for (domain, folded) in [
            ("Example.ORG", "example.org"),
            ("localhost", "localhost"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("ｅxample。org", "example.org"),
        ] {
            assert_eq!(fold_domain(domain).as_deref(), Some(folded));
        }
    }

    #[test]
    fn what_is_no_domain_is_none() {
        for text in [
            "",
            ".",
            "example.org.",
            ".example.org",
            "exa mple.org",
            "example.org\0",
            "[127.0.0.1]",
            "ada@example.org",
            "exam_ple.org",
            "-example.org",
            "xn--a.example",
            "xn--.example",
            &format!("{}.org", "x".repeat(64)),
            &"x.".repeat(127),
            &format!("{}org", "x.".repeat(130)),
            &"ü".repeat(4000),
            &format!("xn--{}.org", "9".repeat(4000)),
        ] {
            assert_eq!(fold_domain(text), None, "{text:?}");
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
