//! The path patterns of routes.

use std::collections::BTreeSet;

/// Checks a path pattern. A valid pattern is an absolute path in which each segment is either plain
/// text or one `{name}`.
///
/// # Errors
/// Returns an error if the path is invalid. The error is a phrase that follows the words "its
/// path".
pub fn check_path(path: &str) -> Result<(), &'static str> {
    let Some(segments) = path.strip_prefix('/') else {
        return Err("does not start with a slash");
    };
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let mut names = BTreeSet::new();
    for segment in segments.split('/') {
        match segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            Some(name) if name.is_empty() || !name.bytes().all(is_name) => {
                return Err("has a named segment with an invalid name");
            }
            Some(name) if !names.insert(name) => {
                return Err("has two named segments with the same name");
            }
            None if matches!(segment, "" | "." | "..") || !segment.bytes().all(is_plain) => {
                return Err(
                    "has a segment that is neither a plain word nor a name in braces such as `{name}`",
                );
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_segment_is_a_whole_segment_with_a_unique_name() {
        for valid in ["/a", "/a/{b}/c.d", "/{_x1}"] {
            assert_eq!(check_path(valid), Ok(()), "{valid}");
        }
        for invalid in [
            "", "a", "/", "/a/", "/a//b", "/{}", "/x{y}", "/a b", "/{a-b}", "/..", "/{a}/{a}",
        ] {
            assert!(check_path(invalid).is_err(), "{invalid}");
        }
    }
}
