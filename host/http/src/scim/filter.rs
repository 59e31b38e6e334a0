//! The filters of lists (RFC 7644, section 3.4.2.2). Only comparisons with `eq` of the attributes
//! `userName`, `externalId`, `id` and `active` are supported, also several of them joined by `and`.

use latchmail_core::codes;
use serde_json::Value;

use super::USER;
use crate::rejection::Rejection;

/// Maximum length of a filter, in bytes.
const MAX_LENGTH: usize = 2048;

const UNSUPPORTED: &str =
    "The supported filters compare userName, externalId, id and active with eq, joined by and";

/// A filter. A value that is `None` does not restrict the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) user_name: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) id: Option<String>,
    pub(super) active: Option<bool>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Returns 400 if the filter is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, Rejection> {
        let unsupported = || Rejection::bad_request(codes::INVALID_FILTER, UNSUPPORTED);
        let mut filter = Self::default();
        let mut rest = text.trim();
        if rest.len() > MAX_LENGTH {
            return Err(unsupported());
        }
        loop {
            rest = filter.comparison(rest).ok_or_else(unsupported)?;
            if rest.is_empty() {
                return Ok(filter);
            }
            rest = word(rest, "and").ok_or_else(unsupported)?;
        }
    }

    /// Parses one comparison, and returns the rest of the text.
    fn comparison<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let (attribute, rest) = text.split_once(' ')?;
        let rest = word(rest.trim_start(), "eq")?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        let rest = rest.get(values.byte_offset()..)?;
        // The value ends at a space or at the end of the filter.
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        match (self.slot(attribute)?, value) {
            // PostgreSQL cannot compare texts with NUL.
            (Slot::Text(slot @ None), Value::String(text)) if !text.contains('\0') => {
                *slot = Some(text);
            }
            (Slot::Flag(slot @ None), Value::Bool(value)) => *slot = Some(value),
            // Some versions of Microsoft Entra ID send booleans as texts.
            (Slot::Flag(slot @ None), Value::String(text)) => *slot = Some(flag(&text)?),
            _ => return None,
        }
        Some(rest.trim_start())
    }

    fn slot(&mut self, attribute: &str) -> Option<Slot<'_>> {
        let name = without_schema(attribute);
        match name.to_ascii_lowercase().as_str() {
            "username" => Some(Slot::Text(&mut self.user_name)),
            "externalid" => Some(Slot::Text(&mut self.external_id)),
            "id" => Some(Slot::Text(&mut self.id)),
            "active" => Some(Slot::Flag(&mut self.active)),
            _ => None,
        }
    }
}

/// The value of a filter that a comparison sets.
enum Slot<'f> {
    Text(&'f mut Option<String>),
    Flag(&'f mut Option<bool>),
}

/// Returns the text after a keyword and the following space.
fn word<'t>(text: &'t str, keyword: &str) -> Option<&'t str> {
    let (first, rest) = text.split_once(' ')?;
    first
        .eq_ignore_ascii_case(keyword)
        .then(|| rest.trim_start())
}

/// Removes the schema of users from the name of an attribute.
pub(super) fn without_schema(name: &str) -> &str {
    let prefix = name.get(..USER.len());
    if prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(USER))
        && let Some(rest) = name.get(USER.len()..)
        && let Some(rest) = rest.strip_prefix(':')
    {
        return rest;
    }
    name
}

/// Parses a boolean that a client sent as a text.
pub(super) fn flag(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_operators_are_case_insensitive() {
        for text in [
            r#"userName eq "Ada@Example.org""#,
            r#"  USERNAME Eq "Ada@Example.org" "#,
            r#"urn:ietf:params:scim:schemas:core:2.0:User:userName eq "Ada@Example.org""#,
        ] {
            let filter = Filter::parse(text).unwrap();
            assert_eq!(filter.user_name.as_deref(), Some("Ada@Example.org"));
        }
    }

    #[test]
    fn comparisons_are_joined_by_and() {
        let filter = Filter::parse(r#"externalId eq "a \"b\" and c" and active eq true"#);
        let expected = Filter {
            external_id: Some("a \"b\" and c".into()),
            active: Some(true),
            ..Filter::default()
        };
        assert_eq!(filter.unwrap(), expected);
        let text = Filter::parse(r#"active eq "False""#).unwrap();
        assert_eq!(text.active, Some(false));
    }

    #[test]
    fn other_filters_are_refused() {
        for text in [
            "",
            "userName",
            "userName eq",
            "userName eq ada",
            "userName eq true",
            "active eq 1",
            r#"userName sw "a""#,
            r#"userName eq "a" or active eq true"#,
            r#"userName eq "a" and userName eq "b""#,
            r#"userName eq "a" and"#,
            r#"userName eq "a"and active eq true"#,
            r#"emails[type eq "work"]"#,
            r#"not (userName eq "a")"#,
            "userName pr",
            r#"userName eq "\u0000""#,
        ] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
    }
}
