//! Validates requested grants. The same rules apply to the first grant of a member and to further
//! grants.
//!
//! This module does not check whether the caller is allowed to make the grant. The directory makes
//! this check.

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::permissions::{AliasSet, Resource, Right, Rights};
use latchmail_core::{address, secrets};
use latchmail_directory::teams::{Grant, Refusal};

use super::Error;

/// Maximum length of a label, in characters.
const LONGEST_LABEL: usize = 200;

/// Maximum length of a folder's id, in bytes (RFC 8474, section 7). `address::fold` and
/// `address::fold_domain` limit the length of addresses and domains.
const LONGEST_ID: usize = 255;

/// A requested grant.
#[derive(Clone, Debug)]
pub struct GrantRequest {
    /// The resource from the caller's request. The UIDVALIDITY of a folder is ignored.
    pub resource: Resource,
    /// The caller's label for the resource.
    pub label: Option<String>,
    /// The rights to grant.
    pub rights: Rights,
}

impl GrantRequest {
    /// Checks the request and returns a grant with a new id.
    pub(super) fn validated(self) -> Result<Grant, Error> {
        some(self.rights)?;
        if !self.rights.within(self.resource.takes()) {
            return Err(Error::Invalid(Problem::new(
                codes::INVALID_RIGHTS,
                not_taken(&self.resource),
            )));
        }
        let label = self.label.as_deref().unwrap_or_default();
        if label.chars().count() > LONGEST_LABEL || label.chars().any(char::is_control) {
            return Err(Error::Invalid(Problem::new(
                codes::INVALID_FIELD,
                "resource_label must be at most 200 characters on one line",
            )));
        }
        Ok(Grant {
            id: secrets::id()?,
            resource: folded(self.resource)?,
            label: self.label,
            rights: self.rights,
        })
    }
}

/// Returns the resource in the form that the directory stores, with addresses and domains in lower
/// case.
fn folded(resource: Resource) -> Result<Resource, Error> {
    Ok(match resource {
        // The ids of all folders are shorter (RFC 8474, section 7), so this folder does not exist.
        Resource::Folder(folder) if folder.id.len() > LONGEST_ID => {
            return Err(Refusal::NoFolder.into());
        }
        Resource::Alias(alias) => {
            let alias = address::fold(&alias).ok_or(Refusal::NoAlias)?;
            Resource::Alias(alias)
        }
        Resource::AliasSet(AliasSet::Domain(domain)) => {
            let domain = address::fold_domain(&domain).ok_or(Refusal::NoDomain)?;
            Resource::AliasSet(AliasSet::Domain(domain))
        }
        Resource::Mailbox | Resource::Folder(_) | Resource::AliasSet(_) => resource,
    })
}

/// Checks that `rights` contains at least one right.
pub(super) fn some(rights: Rights) -> Result<(), Error> {
    if rights.is_none() {
        return Err(Error::Invalid(Problem::new(
            codes::INVALID_RIGHTS,
            "rights must not be empty",
        )));
    }
    Ok(())
}

/// Returns the error text for rights that cannot be granted on a resource.
pub(super) fn not_taken(resource: &Resource) -> String {
    let on = match resource {
        Resource::Mailbox => "the mailbox",
        Resource::Folder(_) => "a folder",
        Resource::Alias(_) => "an alias",
        Resource::AliasSet(_) => "a set of aliases",
    };
    let takes: Vec<&str> = resource.takes().iter().map(Right::name).collect();
    format!("rights on {on} must be among {}", takes.join(", "))
}

#[cfg(test)]
mod tests {
    use latchmail_core::permissions::GrantedFolder;

    use super::*;

    const READ: Rights = Rights::of(&[Right::MailRead]);
    const SEND: Rights = Rights::of(&[Right::MailSend]);

    fn request(resource: Resource, rights: Rights) -> GrantRequest {
        GrantRequest {
            resource,
            label: None,
            rights,
        }
    }

    fn folder(id: &str) -> Resource {
        Resource::Folder(GrantedFolder {
            id: id.into(),
            uid_validity: 0,
        })
    }

    #[track_caller]
    fn invalid(request: GrantRequest) -> String {
        match request.validated() {
            Err(Error::Invalid(problem)) => problem.text.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_granted_is_named_as_the_directory_names_it() {
        let validated = |resource, rights| request(resource, rights).validated().unwrap().resource;
        let alias = Resource::Alias("Shop@Ada.Example".into());
        let expected = Resource::Alias("shop@ada.example".into());
        assert_eq!(validated(alias, SEND), expected);
        let domain = |name: &str| Resource::AliasSet(AliasSet::Domain(name.into()));
        let expected = domain("xn--bcher-kva.example");
        assert_eq!(validated(domain("Bücher.example"), SEND), expected);
        assert_eq!(validated(folder("F1"), READ), folder("F1"));
    }

    #[test]
    fn rights_are_some_and_of_those_that_apply() {
        let nothing = invalid(request(Resource::Mailbox, Rights::NONE));
        assert_eq!(nothing, "rights must not be empty");
        let misplaced = invalid(request(folder("F1"), SEND));
        assert_eq!(
            misplaced,
            "rights on a folder must be among mail:read, mail:write"
        );
        for resource in [
            Resource::Alias("shop@ada.example".into()),
            Resource::AliasSet(AliasSet::Own),
        ] {
            let misplaced = invalid(request(resource, READ));
            assert!(misplaced.ends_with("mail:send, aliases:read, aliases:write"));
        }
    }

    #[test]
    fn a_label_is_one_line_of_200_characters_at_most() {
        let labelled = |label: &str| GrantRequest {
            label: Some(label.into()),
            ..request(Resource::Mailbox, READ)
        };
        assert!(labelled(&"ü".repeat(200)).validated().is_ok());
        assert!(labelled("").validated().is_ok());
        for label in [&*"x".repeat(201), "two\nlines", "a\u{7}bell"] {
            let refused = invalid(labelled(label));
            assert!(refused.starts_with("resource_label"), "{label:?}");
        }
    }

    #[test]
    fn what_cannot_be_anybodys_is_missing_like_what_is_not_there() {
        let refused = |resource, rights| match request(resource, rights).validated() {
            Err(Error::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        };
        let alias = refused(Resource::Alias("no address".into()), SEND);
        assert!(matches!(alias, Refusal::NoAlias));
        let domain = Resource::AliasSet(AliasSet::Domain("no domain".into()));
        assert!(matches!(refused(domain, SEND), Refusal::NoDomain));
        let folder = refused(folder(&"x".repeat(256)), READ);
        assert!(matches!(folder, Refusal::NoFolder));
    }
}
