//! Parses the addresses of a field (RFC 5322, section 3.4) with `mail-parser`, and corrects the results for unusual forms.

use mail_parser::Address as ParsedAddress;

use super::to_single_line;
use crate::Address;

/// Returns the addresses of a field in `header`.
pub(super) fn addresses<'a>(
    header: &'a [u8],
    parsed: Option<&'a ParsedAddress<'a>>,
) -> impl Iterator<Item = Address> + 'a {
    parsed
        .into_iter()
        .flat_map(ParsedAddress::iter)
        .filter_map(move |one| {
            let mut name = to_single_line(one.name().unwrap_or_default());
            if let Some(whole) = one
                .address()
                .and_then(|domain| quoted_local_part(header, domain, &name))
            {
                return Some(whole);
            }
            if name.bytes().all(|b| matches!(b, b'<' | b'>')) {
                // `mail-parser` returns the outer brackets of nested brackets as the name.
                name.clear();
            }
            match one
                .address()
                .map(|address| strip_route(&to_single_line(address)).to_owned())
                .filter(|address| !address.is_empty())
            {
                Some(address) => Some(Address { name, address }),
                // The address is malformed. Return the name as the address.
                None if name.is_empty() => None,
                None => Some(Address {
                    name: String::new(),
                    address: name,
                }),
            }
        })
}

/// Returns an address without brackets and without a source route (RFC 5322, section 4.4).
fn strip_route(address: &str) -> &str {
    let address = address.trim_start_matches('<').trim();
    let address = if address.contains('<') {
        address
    } else {
        address.trim_end_matches('>').trim()
    };
    match address
        .strip_prefix('@')
        .and_then(|route| route.split_once(':'))
    {
        Some((_, after)) if after.contains('@') => after,
        _ => address,
    }
}

/// Returns the complete address if `mail-parser` has split the address before the `@`. For example, `mail-parser` parses `"a b"@example.org` as the name `a b`
/// and the address `@example.org`.
fn quoted_local_part(header: &[u8], domain: &str, name: &str) -> Option<Address> {
    if name.is_empty() || !domain.starts_with('@') {
        return None;
    }
    let (all, piece) = (header.as_ptr_range(), domain.as_bytes().as_ptr_range());
    if !(all.start <= piece.start && piece.end <= all.end) {
        return None;
    }
    let before = header.get(..piece.start.addr() - all.start.addr())?;
    let trimmed = before.trim_ascii_end();
    if trimmed.len() < before.len()
        && trimmed.ends_with(name.as_bytes())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".!#$%&'*+-/=?^_`{|}~".contains(&b))
    {
        return Some(Address {
            name: String::new(),
            address: to_single_line(&format!("{name}{domain}")),
        });
    }
    // RFC 5321, section 4.5.3.1.1, allows 64 bytes for the local part.
    let nearest = &before[before.len().saturating_sub(256)..];
    let inner = nearest.strip_suffix(b"\"")?;
    let opens = (0..inner.len())
        .rev()
        .find(|at| inner[*at] == b'"' && (*at == 0 || inner[at - 1] != b'\\'))?;
    let inner = String::from_utf8_lossy(&inner[opens + 1..]);
    let mut unescaped = String::new();
    let mut escaped = false;
    for c in inner.chars() {
        escaped = c == '\\' && !escaped;
        if !escaped {
            unescaped.push(c);
        }
    }
    // The rest of the name is a comment.
    let comment = name
        .strip_prefix(to_single_line(&unescaped).as_str())?
        .trim();
    let comment = comment
        .strip_prefix('(')
        .and_then(|comment| comment.strip_suffix(')'))
        .unwrap_or(comment);
    Some(Address {
        name: comment.to_owned(),
        address: to_single_line(&format!("\"{inner}\"{domain}")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Header;
    use super::*;

    fn from(field: &str) -> Vec<Address> {
        Header::of(format!("From: {field}\r\n").as_bytes(), 1000).from
    }

    fn address(name: &str, address: &str) -> Address {
        Address {
            name: name.into(),
            address: address.into(),
        }
    }

    #[test]
    fn a_local_part_in_quotes_is_part_of_the_address() {
        assert_eq!(
            from("\"spaced local\"@x.org"),
            [address("", "\"spaced local\"@x.org")]
        );
        assert_eq!(
            from("Bo <\"spaced local\"@x.org>, \"a\\\"b\"@y.org (Bo), c@z.org"),
            [
                address("Bo", "\"spaced local\"@x.org"),
                address("Bo", "\"a\\\"b\"@y.org"),
                address("", "c@z.org")
            ]
        );
        assert_eq!(
            from("ada\r\n @x.\torg, ada@y.org"),
            [address("", "ada@x. org"), address("", "ada@y.org")]
        );
        assert_eq!(
            from("Foo Bar @x.org, Foo (Bar) <@x.org>"),
            [
                address("", "Foo Bar @x.org"),
                address("Foo (Bar)", "@x.org")
            ]
        );
        assert_eq!(from("Foo <@x.org>"), [address("Foo", "@x.org")]);
        assert_eq!(from("\"Foo\" <@x.org>"), [address("Foo", "@x.org")]);
    }

    #[test]
    fn brackets_and_routes_are_not_of_the_address() {
        assert_eq!(
            from("<@a.org,@b.org:ada@x.org>, <<bo@x.org>>, Cy <@d.org>"),
            [
                address("", "ada@x.org"),
                address("", "bo@x.org"),
                address("Cy", "@d.org")
            ]
        );
    }
}
