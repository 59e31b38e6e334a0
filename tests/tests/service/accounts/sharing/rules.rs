//! The expected status of a request, from the grants alone. Written from the documentation,
//! independently of the implementation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A grant in the form of a request.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) kind: &'static str,
    pub(crate) id: Option<String>,
    pub(crate) rights: Vec<&'static str>,
}

impl Grant {
    pub(crate) fn on(kind: &'static str, id: &str, rights: &[&'static str]) -> Self {
        Self {
            kind,
            id: (!id.is_empty()).then(|| id.to_owned()),
            rights: rights.to_vec(),
        }
    }

    pub(crate) fn body(&self) -> Value {
        json!({ "resource_kind": self.kind, "resource_id": self.id, "resource_label": null, "rights": self.rights })
    }
}

/// The resource of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// A folder, by its id, or a message in it.
    Folder(&'a str),
    /// All folders.
    Folders,
    /// An alias, and whether the member created it.
    Alias(&'a str, bool),
    /// A new alias on a domain.
    NewAlias(&'a str),
    /// All aliases.
    Aliases,
    /// The mailbox's own address.
    Address,
}

/// Returns the rights of several grants together.
pub(crate) fn rights_on(grants: &[Grant], target: Target<'_>) -> BTreeSet<&'static str> {
    let domain_of = |address: &str| address.rsplit('@').next().unwrap().to_owned();
    let covers = |grant: &Grant| {
        let id = grant.id.as_deref().unwrap_or_default();
        match (grant.kind, target) {
            ("mailbox", _)
            | ("folder", Target::Folders)
            | ("alias" | "alias_set", Target::Aliases) => true,
            ("folder", Target::Folder(folder)) => id == folder,
            ("alias", Target::Alias(alias, _)) => id == alias,
            ("alias_set", Target::Alias(alias, made)) => match id {
                "all" => true,
                "own" => made,
                domain => domain == format!("domain:{}", domain_of(alias)),
            },
            ("alias_set", Target::NewAlias(on)) => {
                ["all", "own"].contains(&id) || id == format!("domain:{on}")
            }
            _ => false,
        }
    };
    let applies: &[&str] = match target {
        Target::Folder(_) | Target::Folders => &["mail:read", "mail:write"],
        _ => &["mail:send", "aliases:read", "aliases:write"],
    };
    let covering = grants.iter().filter(|grant| covers(grant));
    let rights = covering.flat_map(|grant| grant.rights.iter().copied());
    rights.filter(|right| applies.contains(right)).collect()
}

/// Returns the status of a request for one resource: 404 if the member cannot see it, 403 if it can
/// see it but lacks the right.
pub(crate) fn status_for_one(grants: &[Grant], target: Target<'_>, need: &str, done: u16) -> u16 {
    let held = rights_on(grants, target);
    if held.contains(need) {
        done
    } else if held.is_empty() {
        404
    } else {
        403
    }
}

/// Returns the status of a request for all folders or aliases.
pub(crate) fn status_for_all(grants: &[Grant], target: Target<'_>, need: &str, done: u16) -> u16 {
    if rights_on(grants, target).contains(need) {
        done
    } else {
        403
    }
}
