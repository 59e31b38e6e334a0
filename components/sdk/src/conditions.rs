//! Conditional requests (RFC 9110, section 13): the headers `If-Match` and `If-None-Match`, and the
//! responses with an entity tag. An entity tag here is the opaque text between the quotation marks.

use crate::message::{Reply, Request};

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityTags {
    /// Whether the value is `*`, which stands for every entity tag.
    any: bool,
    /// The entity tags. `true` marks a weak tag.
    tags: Vec<(bool, String)>,
}

impl EntityTags {
    /// Parses the value of a header. Ignores everything after an invalid entity tag. Without a
    /// valid tag, the result matches nothing.
    fn parse(value: &str) -> Self {
        let mut rest = value.trim();
        let mut parsed = Self {
            any: rest == "*",
            tags: Vec::new(),
        };
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let weak = rest.strip_prefix("W/");
            let Some((tag, after)) = weak
                .unwrap_or(rest)
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
            else {
                return parsed;
            };
            parsed.tags.push((weak.is_some(), tag.to_owned()));
            rest = after;
        }
    }

    /// Returns `true` if the value is `*`.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.any
    }

    /// Compares an entity tag with the value of `If-None-Match`. Weak and strong tags are equal
    /// (the weak comparison, RFC 9110, section 8.8.3.2).
    #[must_use]
    pub fn match_weakly(&self, tag: &str) -> bool {
        self.any || self.tags.iter().any(|(_, one)| one == tag)
    }

    /// Returns the strong tags. Only these tags can match in `If-Match` (the strong comparison, RFC
    /// 9110, section 8.8.3.2).
    pub fn strong(&self) -> impl Iterator<Item = &str> {
        let strong = self.tags.iter().filter(|(weak, _)| !weak);
        strong.map(|(_, tag)| tag.as_str())
    }
}

impl Request {
    /// Returns the entity tags in `If-Match`. Returns `None` if the request has no such header.
    #[must_use]
    pub fn if_match(&self) -> Option<EntityTags> {
        self.entity_tags("if-match")
    }

    /// Returns the entity tags in `If-None-Match`. Returns `None` if the request has no such
    /// header.
    #[must_use]
    pub fn if_none_match(&self) -> Option<EntityTags> {
        self.entity_tags("if-none-match")
    }

    fn entity_tags(&self, name: &str) -> Option<EntityTags> {
        let values = self.headers.iter().filter(|(header, _)| header == name);
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| EntityTags::parse(&values.join(",")))
    }
}

impl Reply {
    /// Adds the header `ETag` with a strong entity tag. `tag` must not contain quotation marks.
    #[must_use]
    pub fn with_etag(self, tag: &str) -> Self {
        self.with("etag", &format!("\"{tag}\""))
    }

    /// Creates a 304 response: the client has the current representation already.
    #[must_use]
    pub fn not_modified(tag: &str) -> Self {
        Self::empty(304).with_etag(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn if_none_match(values: &[&str]) -> Option<EntityTags> {
        let header = |value: &&str| ("if-none-match".to_owned(), (*value).to_owned());
        let request = Request {
            headers: values.iter().map(header).collect(),
            ..Request::default()
        };
        assert_eq!(request.if_match(), None);
        request.if_none_match()
    }

    #[test]
    fn a_list_can_contain_weak_tags_and_commas_and_span_several_headers() {
        let tags = if_none_match(&[r#"W/"a" ,"b,c""#, r#", "d""#]).unwrap();
        for tag in ["a", "b,c", "d"] {
            assert!(tags.match_weakly(tag), "{tag}");
        }
        assert!(!tags.match_weakly("b") && !tags.is_any());
        assert_eq!(tags.strong().collect::<Vec<_>>(), ["b,c", "d"]);
    }

    #[test]
    fn an_asterisk_matches_every_tag() {
        let tags = if_none_match(&[" * "]).unwrap();
        assert!(tags.is_any() && tags.match_weakly("a"));
        assert_eq!(if_none_match(&[]), None);
    }

    #[test]
    fn an_invalid_value_matches_nothing() {
        for invalid in ["", "a", "\"a", "w/\"a\"", "W/a", "*, \"b\"", "a, \"a\""] {
            let tags = if_none_match(&[invalid]).unwrap();
            assert!(!tags.match_weakly("a") && !tags.is_any(), "{invalid}");
        }
    }

    #[test]
    fn a_response_has_a_quoted_tag() {
        let reply = Reply::not_modified("a1");
        assert_eq!(reply.status, 304);
        assert_eq!(reply.headers, [("etag".into(), "\"a1\"".into())]);
    }
}
