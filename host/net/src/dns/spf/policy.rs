//! Parses SPF records (RFC 7208, section 4.6.1 and appendix A). Sends no queries.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A parsed record, in lower case.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    /// The directives in the order of evaluation.
    pub(super) directives: Vec<Directive>,
    /// The domain whose record applies if no directive matches.
    pub(super) redirect: Option<String>,
}

/// A mechanism, and the effect of its qualifier.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    /// Whether mail passes if the mechanism matches. `true` for the qualifier `+` and without a
    /// qualifier.
    pub(super) passes: bool,
    pub(super) mechanism: Mechanism,
}

/// A mechanism and its argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    All,
    Include(String),
    A(String),
    Mx(String),
    Ptr,
    Exists(String),
    /// An address or a network, which needs no lookup.
    Network,
}

/// Returns the terms of an SPF record (RFC 7208, section 4.5), or `None` if the record is not an
/// SPF record.
pub(super) fn terms(record: &str) -> Option<&str> {
    let (version, terms) = record.split_at_checked("v=spf1".len())?;
    let is_complete = terms.is_empty() || terms.starts_with(' ');
    (version.eq_ignore_ascii_case("v=spf1") && is_complete).then_some(terms)
}

/// Returns `true` if a name contains macros, which depend on the message (RFC 7208, section 7).
pub(super) fn has_macro(name: &str) -> bool {
    name.contains('%')
}

/// Parses the terms of the record of `domain`. Returns `None` if any term has a syntax error,
/// because one error makes the record invalid.
pub(super) fn parse(terms: &str, domain: &str) -> Option<Policy> {
    let mut policy = Policy::default();
    let mut has_explanation = false;
    for term in terms.split_ascii_whitespace() {
        let term = term.to_ascii_lowercase();
        match modifier(&term) {
            Some(("redirect", target)) => {
                if policy.redirect.replace(name(target)?).is_some() {
                    return None;
                }
            }
            Some(("exp", target)) => {
                name(target)?;
                if std::mem::replace(&mut has_explanation, true) {
                    return None;
                }
            }
            // Unknown modifiers are ignored (RFC 7208, section 6).
            Some(_) => {}
            None => policy.directives.push(directive(&term, domain)?),
        }
    }
    Some(policy)
}

/// Returns the name and the value of a modifier (`name=value`), or `None` if the term is not a
/// modifier.
fn modifier(term: &str) -> Option<(&str, &str)> {
    let (name, value) = term.split_once('=')?;
    let is_name_character = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name_character))
        .then_some((name, value))
}

/// Parses a mechanism with an optional qualifier.
fn directive(term: &str, domain: &str) -> Option<Directive> {
    let (passes, text) = match term.strip_prefix(['-', '~', '?']) {
        Some(text) => (false, text),
        None => (true, term.strip_prefix('+').unwrap_or(term)),
    };
    let end = text.find([':', '/']).unwrap_or(text.len());
    let (kind, rest) = text.split_at(end);
    let argument = rest.strip_prefix(':');
    let mechanism = match kind {
        "all" if rest.is_empty() => Mechanism::All,
        "include" => Mechanism::Include(name(argument?)?),
        "exists" => Mechanism::Exists(name(argument?)?),
        "a" => Mechanism::A(name_and_lengths(rest, domain)?),
        "mx" => Mechanism::Mx(name_and_lengths(rest, domain)?),
        "ptr" if rest.is_empty() => Mechanism::Ptr,
        "ptr" => name(argument?).map(|_| Mechanism::Ptr)?,
        "ip4" if is_network::<Ipv4Addr>(argument?, 32) => Mechanism::Network,
        "ip6" if is_network::<Ipv6Addr>(argument?, 128) => Mechanism::Network,
        _ => return None,
    };
    Some(Directive { passes, mechanism })
}

/// Returns the name without its trailing dot, or `None` if the name is not valid. Does not check
/// the syntax of a name with macros.
fn name(text: &str) -> Option<String> {
    let bare = text.strip_suffix('.').unwrap_or(text);
    let is_plain = bare
        .split('.')
        .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_graphic()))
        && !bare.contains('/');
    (is_plain || (has_macro(text) && text.is_ascii())).then(|| bare.to_owned())
}

/// Parses an optional `:name` and optional prefix lengths (`/24`, `//64`). Returns the name, or
/// `domain` without a name. Returns `None` if the syntax is not valid.
fn name_and_lengths(rest: &str, domain: &str) -> Option<String> {
    let Some(argument) = rest.strip_prefix(':') else {
        return are_prefix_lengths(rest).then(|| domain.to_owned());
    };
    if has_macro(argument) {
        return name(argument);
    }
    let (text, after) = argument.split_at(argument.find('/').unwrap_or(argument.len()));
    are_prefix_lengths(after).then(|| name(text))?
}

/// Returns `true` if `text` is empty or consists of valid prefix lengths, such as `/24`, `//64` or
/// `/24//64`.
fn are_prefix_lengths(text: &str) -> bool {
    let (v4, v6) = match text.split_once("//") {
        Some((v4, v6)) => (v4, Some(v6)),
        None => (text, None),
    };
    let v4 = v4.is_empty() || v4.strip_prefix('/').is_some_and(|n| at_most(n, 32));
    v4 && v6.is_none_or(|n| at_most(n, 128))
}

/// Returns `true` if `text` is an address, optionally with a prefix length of at most `max_length`.
fn is_network<A: FromStr>(text: &str, max_length: u8) -> bool {
    match text.split_once('/') {
        Some((address, length)) => address.parse::<A>().is_ok() && at_most(length, max_length),
        None => text.parse::<A>().is_ok(),
    }
}

fn at_most(digits: &str, max: u8) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<u8>().is_ok_and(|number| number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_spf_record_is_recognized_by_its_version() {
        assert_eq!(terms("v=spf1"), Some(""));
        assert_eq!(terms("V=SPF1 -all"), Some(" -all"));
        for record in [
            "",
            "v=spf",
            "v=spf10 -all",
            "v=spf1;-all",
            " v=spf1 -all",
            "ü=spf1",
        ] {
            assert_eq!(terms(record), None, "{record}");
        }
    }

    #[test]
    fn all_terms_of_the_rfc_are_parsed() {
        let own = || "own.example".to_owned();
        let parse = |terms| parse(terms, &own()).unwrap();
        let names = |policy: Policy| -> Vec<Mechanism> {
            policy
                .directives
                .into_iter()
                .map(|one| one.mechanism)
                .collect()
        };
        let host = || "mail.example".to_owned();
        assert_eq!(
            names(parse(
                " a a:Mail.Example/24//64 mx//64 mx/24 mx:mail.example. ptr ptr:mail.example "
            )),
            [
                Mechanism::A(own()),
                Mechanism::A(host()),
                Mechanism::Mx(own()),
                Mechanism::Mx(own()),
                Mechanism::Mx(host()),
                Mechanism::Ptr,
                Mechanism::Ptr,
            ]
        );
        assert_eq!(
            names(parse(
                "ip4:192.0.2.1 ip4:192.0.2.0/24 ip6:2001:db8::/32 ip6:::1 exists:%{ir}.%{d2}.example ALL"
            )),
            [
                Mechanism::Network,
                Mechanism::Network,
                Mechanism::Network,
                Mechanism::Network,
                Mechanism::Exists("%{ir}.%{d2}.example".into()),
                Mechanism::All,
            ]
        );
        for (term, passes) in [
            ("include:mail.example", true),
            ("+include:mail.example", true),
            ("-include:mail.example", false),
            ("~include:mail.example", false),
            ("?include:mail.example", false),
        ] {
            let mechanism = Mechanism::Include(host());
            assert_eq!(
                parse(term).directives,
                [Directive { passes, mechanism }],
                "{term}"
            );
        }
        let further = parse("redirect=mail.example exp=why.example x-more=anything:at/all a.b=");
        assert_eq!(further.redirect, Some(host()));
        assert!(further.directives.is_empty());
    }

    #[test]
    fn a_syntax_error_in_any_term_invalidates_the_record() {
        for terms in [
            "nonsense",
            "includes:mail.example",
            "include",
            "include:",
            "include:mail..example",
            "include:mail.example/24",
            "include=mail.example:1 :",
            "all:mail.example",
            "all/8",
            "a:",
            "a/33",
            "a/+8",
            "a//129",
            "a/24/64",
            "mx/",
            "ptr:",
            "exists",
            "ip4",
            "ip4:mail.example",
            "ip4:192.0.2.0/33",
            "ip4:2001:db8::1",
            "ip6:192.0.2.1",
            "ip6:2001:db8::/129",
            "--all",
            "redirect=",
            "redirect=a.example redirect=a.example",
            "exp=a.example exp=b.example",
            "include:bücher.example",
            "\u{201c}include:mail.example\u{201d}",
        ] {
            assert_eq!(parse(terms, "own.example"), None, "{terms}");
        }
    }
}
