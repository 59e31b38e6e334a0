//! References to artifacts: `oci://HOST/REPOSITORY:TAG@DIGEST`.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use latchmail_net::fetch::Target;

use crate::digest::Digest;

const SCHEME: &str = "oci://";

/// The maximum length of the name of a repository and of a tag (OCI Distribution 1.1).
const LONGEST_REPOSITORY: usize = 255;
const LONGEST_TAG: usize = 128;

/// A reference to an artifact of a registry. Without a tag and a digest, it is a reference to a
/// repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The host, and the port if it is not that of the scheme.
    pub(crate) host: String,
    /// The path of the repository.
    pub(crate) repository: String,
    /// The tag.
    pub(crate) tag: Option<String>,
    /// The digest of the manifest.
    pub(crate) digest: Option<Digest>,
}

/// The error for a text that is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a reference to a registry, such as oci://registry.example.com/modules/rules:1.0.0"
)]
pub struct InvalidReference(String);

impl Reference {
    /// Returns `true` if a text is meant as a reference: it starts with `oci://`.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Returns the path of the repository.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag of the reference.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the reference.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the reference without its digest.
    #[must_use]
    pub fn without_digest(&self) -> Self {
        Self {
            digest: None,
            ..self.clone()
        }
    }

    /// Returns the reference with another tag, without a digest.
    pub(crate) fn with_tag(&self, tag: &str) -> Self {
        Self {
            tag: Some(tag.to_owned()),
            ..self.without_digest()
        }
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        parse(text).ok_or_else(|| InvalidReference(text.to_owned()))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

fn parse(text: &str) -> Option<Reference> {
    let (host, path) = text.strip_prefix(SCHEME)?.split_once('/')?;
    let url = format!("https://{host}/").parse::<Uri>().ok()?;
    Target::of(&url)?;
    let (path, digest) = match path.split_once('@') {
        Some((path, digest)) => (path, Some(Digest::parse(digest)?)),
        None => (path, None),
    };
    let (repository, tag) = match path.split_once(':') {
        Some((repository, tag)) if is_tag(tag) => (repository, Some(tag.to_owned())),
        Some(_) => return None,
        None => (path, None),
    };
    is_repository(repository).then(|| Reference {
        host: host.to_ascii_lowercase(),
        repository: repository.to_owned(),
        tag,
        digest,
    })
}

/// Returns whether a text is a tag of a registry.
pub(crate) fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = text.bytes();
    text.len() <= LONGEST_TAG
        && bytes.next().is_some_and(is_word)
        && bytes.all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_repository(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphanumeric())
            && segment.ends_with(|c: char| c.is_ascii_alphanumeric())
            && segment
                .bytes()
                .all(|byte| is_plain(byte) || b"._-".contains(&byte))
    };
    text.len() <= LONGEST_REPOSITORY && text.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_has_a_host_a_repository_and_a_tag_or_a_digest() {
        let digest = Digest::of(b"");
        for text in [
            "oci://registry.example.com/rules:1.0.0".to_owned(),
            "oci://127.0.0.1:5000/modules/mail-rules:latest".to_owned(),
            "oci://[::1]:5000/a/b.c/d__e:v1".to_owned(),
            format!("oci://registry.example.com/rules@{digest}"),
            format!("oci://registry.example.com/rules:1@{digest}"),
            "oci://registry.example.com/rules".to_owned(),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            assert_eq!(reference.digest().is_some(), text.contains('@'), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_references() {
        for text in [
            "",
            "oci://",
            "oci://host",
            "oci://host/",
            "oci:///rules:1",
            "https://host/rules:1",
            "oci://user@host/rules:1",
            "oci://host/Rules:1",
            "oci://host/../rules:1",
            "oci://host/a//b:1",
            "oci://host/rules:",
            "oci://host/rules:a/b",
            "oci://host/rules:1?x=y",
            "oci://host/rules@sha256:00",
            "oci://host/rules@sha512:00",
            "oci://host/rules:1 ",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
