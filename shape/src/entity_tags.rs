//! The entity tags in the headers of conditional requests (RFC 9110, section 13). An entity tag
//! here is the opaque text between the quotation marks.

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
    #[must_use]
    pub fn parse(value: &str) -> Self {
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
