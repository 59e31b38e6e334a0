//! Conditional requests (RFC 9110, section 13): the headers `If-Match` and `If-None-Match`, and the
//! responses with an entity tag. An entity tag here is the opaque text between the quotation marks.

pub use latchmail_shape::EntityTags;

use crate::message::{Reply, Request};

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
