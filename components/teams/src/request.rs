//! Parses grants in requests.

use latchmail_sdk::capability::{self, NewGrant, Target};
use latchmail_sdk::{Failure, codes};

use crate::model::{ResourceKind, Right};

const SETS: &str = "resource_id must be all, own or domain:<domain> for a set of aliases";

/// The resource of a grant in a request.
pub(crate) struct Resource {
    pub(crate) kind: ResourceKind,
    pub(crate) id: Option<String>,
    pub(crate) label: Option<String>,
}

impl Resource {
    /// Creates a grant of `rights` on the resource. Returns 400 if the id of the resource is
    /// missing or invalid.
    pub(crate) fn granting(self, rights: &[Right]) -> Result<NewGrant, Failure> {
        Ok(NewGrant {
            target: target(self.kind, self.id)?,
            label: self.label,
            rights: for_the_host(rights),
        })
    }
}

fn target(kind: ResourceKind, id: Option<String>) -> Result<Target, Failure> {
    let id = match (kind, id) {
        (ResourceKind::Mailbox, None) => return Ok(Target::Mailbox),
        (ResourceKind::Mailbox, Some(_)) => {
            return Err(Failure::bad_request(
                codes::INVALID_RESOURCE,
                "resource_id must be null for the mailbox",
            ));
        }
        (_, None) => {
            return Err(Failure::bad_request(
                codes::FIELD_REQUIRED,
                "resource_id is required",
            ));
        }
        (_, Some(id)) => id,
    };
    Ok(match (kind, id.as_str()) {
        (ResourceKind::Folder, _) => Target::Folder(id),
        (ResourceKind::AliasSet, "all") => Target::AllAliases,
        (ResourceKind::AliasSet, "own") => Target::OwnAliases,
        (ResourceKind::AliasSet, set) => {
            let domain = set.strip_prefix("domain:");
            let domain =
                domain.ok_or_else(|| Failure::bad_request(codes::INVALID_RESOURCE, SETS))?;
            Target::AliasesOf(domain.to_owned())
        }
        (ResourceKind::Alias | ResourceKind::Mailbox, _) => Target::Alias(id),
    })
}

/// Sorts rights in canonical order and removes duplicates. Returns 400 if there are no rights.
pub(crate) fn in_order(mut rights: Vec<Right>) -> Result<Vec<Right>, Failure> {
    if rights.is_empty() {
        return Err(Failure::bad_request(
            codes::INVALID_RIGHTS,
            "rights must not be empty",
        ));
    }
    rights.sort_unstable();
    rights.dedup();
    Ok(rights)
}

pub(crate) fn for_the_host(rights: &[Right]) -> Vec<capability::Right> {
    rights.iter().copied().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::failure;

    use super::*;

    #[test]
    fn a_resource_is_identified_by_its_kind_and_id() {
        use ResourceKind::{Alias, AliasSet, Folder, Mailbox};
        let named = |kind, id: Option<&str>| target(kind, id.map(Into::into));
        for (kind, id, expected) in [
            (Mailbox, None, Target::Mailbox),
            (Folder, Some("F1"), Target::Folder("F1".into())),
            (Alias, Some("a@b.test"), Target::Alias("a@b.test".into())),
            (AliasSet, Some("all"), Target::AllAliases),
            (AliasSet, Some("own"), Target::OwnAliases),
            (
                AliasSet,
                Some("domain:b.test"),
                Target::AliasesOf("b.test".into()),
            ),
        ] {
            let target = named(kind, id).unwrap();
            assert_eq!(format!("{target:?}"), format!("{expected:?}"));
        }
        for (kind, id, text) in [
            (
                Mailbox,
                Some(""),
                "resource_id must be null for the mailbox",
            ),
            (Folder, None, "resource_id is required"),
            (Alias, None, "resource_id is required"),
            (AliasSet, None, "resource_id is required"),
            (AliasSet, Some("ALL"), SETS),
            (AliasSet, Some("b.test"), SETS),
            (AliasSet, Some(""), SETS),
        ] {
            let refused = named(kind, id).unwrap_err();
            assert_eq!(refused, failure(400, text), "{id:?}");
        }
    }
}
