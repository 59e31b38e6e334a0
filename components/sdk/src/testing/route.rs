//! Finds the route of a request, in the same way as the host.

use latchmail_shape::decode_segment;

use crate::bindings::exports::latchmail::host::module::Route;

/// Returns the name in a segment `{name}`. Returns `None` if the segment is plain text.
fn named(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Returns the routes for a path, with all methods. Plain segments take precedence over named
/// segments.
pub(super) fn at<'r>(routes: &'r [Route], path: &str) -> Vec<&'r Route> {
    let mut fitting: Vec<&Route> = routes.iter().filter(|r| fits(&r.path, path)).collect();
    let shape = |route: &Route| -> Vec<bool> {
        let segments = route.path.split('/');
        segments.map(|segment| named(segment).is_some()).collect()
    };
    fitting.sort_by_key(|route| shape(route));
    let Some(first) = fitting.first().map(|route| route.path.clone()) else {
        return Vec::new();
    };
    fitting.retain(|route| route.path == first);
    fitting
}

fn fits(pattern: &str, path: &str) -> bool {
    pattern.split('/').count() == path.split('/').count()
        && pattern
            .split('/')
            .zip(path.split('/'))
            .all(|(pattern, segment)| match named(pattern) {
                Some(_) => !segment.is_empty(),
                None => pattern == segment,
            })
}

/// Returns the values of the named segments in a path. Returns `None` if a value is not valid
/// percent-encoded text.
pub(super) fn values(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
    let pairs = pattern.split('/').zip(path.split('/'));
    let values = pairs.filter_map(|(pattern, segment)| Some((named(pattern)?, segment)));
    values
        .map(|(name, segment)| Some((name.into(), decode_segment(segment)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_after_the_path_is_split() {
        let pattern = "/folders/{folder}/messages/{uid}";
        let path = "/folders/A%2FB%20%C3%A9/messages/7";
        assert!(fits(pattern, path) && !fits(pattern, "/folders/A/B/messages/7"));
        let found = values(pattern, path).unwrap();
        assert_eq!(found[0], ("folder".into(), "A/B é".into()));
        assert_eq!(found[1], ("uid".into(), "7".into()));
        for bad in ["%", "%4", "%zz", "%ff", "%00"] {
            assert_eq!(values("/{name}", &format!("/{bad}")), None, "{bad}");
        }
    }
}
