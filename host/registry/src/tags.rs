//! Finds the newest version in a repository. Versions are tags of three numbers, as `wkg` creates
//! them. Tags of pre-releases are ignored.

use bytes::Bytes;
use serde::Deserialize;

use crate::client::{Call, Session};
use crate::error::Error;
use crate::reference::{Reference, is_tag};

/// The number of tags in one response, and the maximum number of responses.
const PAGE: usize = 1000;
const MAX_PAGES: usize = 20;

/// The maximum size of one response in bytes.
const MAX_LIST: u64 = 1024 * 1024;

/// A list of tags.
#[derive(Deserialize)]
struct List {
    /// Some registries return null for an empty list.
    tags: Option<Vec<String>>,
}

/// Returns the reference to the newest version in the repository of `installed`. If the tag of
/// `installed` is not a version, for example `latest`, returns `installed` without its digest. The
/// result is never an older version.
///
/// # Errors
/// Returns [`Error::Incomplete`] if `installed` has no tag, and another error if the tags cannot be
/// listed.
pub(crate) async fn newest(
    session: &mut Session<'_>,
    installed: &Reference,
) -> Result<Reference, Error> {
    let Some(tag) = &installed.tag else {
        let problem = "has no tag, so it has no newer version; install a tag";
        return Err(Error::incomplete(installed, problem));
    };
    let Some(current) = version(tag) else {
        return Ok(installed.without_digest());
    };
    let tags = tags(session).await?;
    let newer = tags
        .iter()
        .filter_map(|tag| version(tag).map(|version| (version, tag)))
        .filter(|(version, _)| *version > current)
        .max();
    Ok(installed.with_tag(newer.map_or(tag, |(_, tag)| tag)))
}

/// Returns the tags of the repository.
async fn tags(session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    let what = "the list of tags";
    let mut all: Vec<String> = Vec::new();
    for _ in 0..MAX_PAGES {
        let mut url = session.url("tags/list")?;
        url.query_pairs_mut().append_pair("n", &PAGE.to_string());
        if let Some(last) = all.last() {
            url.query_pairs_mut().append_pair("last", last);
        }
        let call = Call {
            what,
            method: "GET",
            url,
            headers: Vec::new(),
            body: Bytes::new(),
            limit: MAX_LIST,
        };
        let response = session.request(&call).await?;
        let list: List = serde_json::from_slice(&response.body)
            .map_err(|error| Error::malformed(what, error))?;
        let has_more = response.headers.contains_key(http::header::LINK);
        let before = all.len();
        let tags = list.tags.unwrap_or_default();
        all.extend(tags.into_iter().filter(|tag| is_tag(tag)));
        if !has_more || all.len() == before {
            return Ok(all);
        }
    }
    Err(Error::malformed(what, "the repository has too many tags"))
}

/// Returns the numbers of a version such as `1.2.3` or `v1.2.3`. Returns `None` for other texts.
#[must_use]
pub fn version(tag: &str) -> Option<[u64; 3]> {
    let text = tag.strip_prefix('v').unwrap_or(tag);
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    let mut parts = text.split('.').map(number);
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_three_numbers() {
        assert_eq!(version("1.2.3"), Some([1, 2, 3]));
        assert_eq!(version("v10.0.0"), Some([10, 0, 0]));
        for tag in [
            "",
            "v",
            "latest",
            "1",
            "1.2",
            "1.2.3.4",
            "1.2.x",
            "1.2.3-rc.1",
            "1.2.+3",
            "1..3",
            "99999999999999999999.0.0",
        ] {
            assert_eq!(version(tag), None, "{tag}");
        }
        assert!(version("1.10.0") > version("1.9.9"));
    }
}
