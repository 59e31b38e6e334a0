//! Defines the rights of the members of a shared mailbox, and the resources to which rights apply.
//! Computes the union of a member's grants.
//!
//! This module contains only data types and set operations. The directory stores the grants. The
//! module that provides a resource enforces the grants on this resource.

use std::fmt;

use latchmail_shape::named;

named! {
    /// A right of a member of a shared mailbox. The variants are in canonical order. Their names
    /// are those in requests and responses.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Right {
        /// `mail:read`
        MailRead = "mail:read",
        /// `mail:write`
        MailWrite = "mail:write",
        /// `mail:send`
        MailSend = "mail:send",
        /// `aliases:read`
        AliasesRead = "aliases:read",
        /// `aliases:write`
        AliasesWrite = "aliases:write",
        /// `members:manage`
        MembersManage = "members:manage",
    }
}

impl Right {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Returns the error text for a member who sees a resource but does not have `right` over this
/// resource.
#[must_use]
pub fn lacking(right: Right) -> String {
    format!("Your rights in this mailbox do not include \"{right}\" here")
}

/// A set of rights.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// No rights.
    pub const NONE: Self = Self(0);
    /// Every right. The owner of a mailbox has all rights.
    pub const ALL: Self = Self::of(&Right::ALL);
    /// The rights over mail.
    pub const MAIL: Self = Self::of(&[Right::MailRead, Right::MailWrite, Right::MailSend]);
    /// The rights that apply to a folder.
    pub const OF_FOLDER: Self = Self::of(&[Right::MailRead, Right::MailWrite]);
    /// The rights that apply to an alias.
    pub const OF_ALIAS: Self =
        Self::of(&[Right::MailSend, Right::AliasesRead, Right::AliasesWrite]);

    /// Creates a set of these rights.
    #[must_use]
    pub const fn of(rights: &[Right]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < rights.len() {
            bits |= rights[at].bit();
            at += 1;
        }
        Self(bits)
    }

    /// Returns the set of rights with these names, or `None` if a name is unknown. A name may occur
    /// several times.
    #[must_use]
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<Self> {
        names
            .into_iter()
            .map(|name| Some(Self::of(&[Right::named(name)?])))
            .try_fold(Self::NONE, |all, one| Some(all.and(one?)))
    }

    /// Returns `true` if the set contains `right`.
    #[must_use]
    pub const fn hold(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` if `others` contains every right of this set.
    #[must_use]
    pub const fn within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// Returns the union of this set and `others`.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the intersection of this set and `others`.
    #[must_use]
    pub const fn only(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Iterates over the rights in the set, in canonical order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL
            .into_iter()
            .filter(move |right| self.hold(*right))
    }
}

/// Formats the rights as the database stores them: the names of the rights in canonical order,
/// separated by spaces.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, right) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(right.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// A folder in a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedFolder {
    /// The folder's id, which stays the same when the folder is renamed.
    pub id: String,
    /// The folder's UIDVALIDITY at the time of the grant. A new folder with the same name has
    /// another UIDVALIDITY, so the grant does not apply to the new folder.
    pub uid_validity: u32,
}

/// A set of existing and future aliases.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AliasSet {
    /// Every alias of the mailbox.
    All,
    /// The aliases that the member created.
    Own,
    /// The aliases on one domain. The domain is in lower case and in ASCII form.
    Domain(String),
}

/// A resource on which rights can be granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The mailbox as a whole.
    Mailbox,
    /// A folder without its subfolders.
    Folder(GrantedFolder),
    /// The address of an alias, in lower case.
    Alias(String),
    /// A set of aliases.
    AliasSet(AliasSet),
}

impl Resource {
    /// Returns the rights that can be granted on the resource.
    #[must_use]
    pub const fn takes(&self) -> Rights {
        match self {
            Self::Mailbox => Rights::ALL,
            Self::Folder(_) => Rights::OF_FOLDER,
            Self::Alias(_) | Self::AliasSet(_) => Rights::OF_ALIAS,
        }
    }
}

/// A resource and the rights that are granted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The id of the grant. Empty if the caller does not need the id, and for an owner.
    pub id: String,
    /// The resource.
    pub resource: Resource,
    /// The granted rights.
    pub rights: Rights,
}

/// All grants of one member in a mailbox. If several grants apply to a resource, the member has the
/// union of the granted rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Granted>);

impl From<Vec<Granted>> for Grants {
    fn from(grants: Vec<Granted>) -> Self {
        Self(grants)
    }
}

impl Grants {
    /// Returns the grants of an owner. The owner has every right on the mailbox.
    #[must_use]
    pub fn owner() -> Self {
        Self(vec![Granted {
            id: String::new(),
            resource: Resource::Mailbox,
            rights: Rights::ALL,
        }])
    }

    /// Returns the union of the rights of all grants. Lists of members and of mailboxes contain
    /// this union.
    #[must_use]
    pub fn anywhere(&self) -> Rights {
        self.union(|_| true)
    }

    /// Returns the union of the rights of all grants on the mailbox as a whole
    /// ([`Resource::Mailbox`]).
    #[must_use]
    pub fn over_mailbox(&self) -> Rights {
        self.union(|resource| *resource == Resource::Mailbox)
    }

    /// Returns the member's rights over every folder. Only grants on the mailbox as a whole count.
    #[must_use]
    pub fn over_every_folder(&self) -> Rights {
        self.over_mailbox().only(Rights::OF_FOLDER)
    }

    /// Returns the union of the member's rights over all folders, including rights over a single
    /// folder.
    #[must_use]
    pub fn over_some_folder(&self) -> Rights {
        let folders = self.union(|resource| matches!(resource, Resource::Folder(_)));
        self.over_every_folder().and(folders)
    }

    /// Iterates over all grants.
    pub fn iter(&self) -> impl Iterator<Item = &Granted> {
        self.0.iter()
    }

    /// Iterates over the grants on single folders. Each item contains the folder and the granted
    /// rights.
    pub fn folders(&self) -> impl Iterator<Item = (&GrantedFolder, Rights)> {
        self.0.iter().filter_map(|grant| match &grant.resource {
            Resource::Folder(folder) => Some((folder, grant.rights)),
            _ => None,
        })
    }

    /// Returns the member's rights over one alias. `created` is `true` if the member created the
    /// alias.
    #[must_use]
    pub fn over_alias(&self, address: &str, created: bool) -> Rights {
        let domain = address.rsplit('@').next().unwrap_or_default();
        let rights = self.union(|resource| match resource {
            Resource::Mailbox | Resource::AliasSet(AliasSet::All) => true,
            Resource::AliasSet(AliasSet::Own) => created,
            Resource::AliasSet(AliasSet::Domain(of)) => of == domain,
            Resource::Alias(one) => one == address,
            Resource::Folder(_) => false,
        });
        rights.only(Rights::OF_ALIAS)
    }

    /// Returns the member's rights over the mailbox's own address. Only grants on the mailbox as a
    /// whole count, because this address is not an alias.
    #[must_use]
    pub fn over_address(&self) -> Rights {
        self.over_mailbox().only(Rights::OF_ALIAS)
    }

    /// Returns the member's rights over a new alias on this domain, if the member creates the
    /// alias.
    #[must_use]
    pub fn over_new_alias(&self, domain: &str) -> Rights {
        let rights = self.union(|resource| match resource {
            Resource::Mailbox | Resource::AliasSet(AliasSet::All | AliasSet::Own) => true,
            Resource::AliasSet(AliasSet::Domain(of)) => of == domain,
            Resource::Alias(_) | Resource::Folder(_) => false,
        });
        rights.only(Rights::OF_ALIAS)
    }

    /// Returns the union of the member's rights over all existing and future aliases, including
    /// rights over a single alias.
    #[must_use]
    pub fn over_some_alias(&self) -> Rights {
        let rights = self.union(|resource| !matches!(resource, Resource::Folder(_)));
        rights.only(Rights::OF_ALIAS)
    }

    /// Returns `true` if the member has a right over an existing or future alias on this domain.
    #[must_use]
    pub fn apply_to_domain(&self, domain: &str) -> bool {
        self.0.iter().any(|grant| {
            let reaches = match &grant.resource {
                Resource::Mailbox | Resource::AliasSet(AliasSet::All | AliasSet::Own) => true,
                Resource::AliasSet(AliasSet::Domain(of)) => of == domain,
                Resource::Alias(one) => one.rsplit('@').next() == Some(domain),
                Resource::Folder(_) => false,
            };
            reaches && !grant.rights.only(Rights::OF_ALIAS).is_none()
        })
    }

    /// Returns the rights that the member is allowed to grant to others on a resource. A member is
    /// allowed to grant a right only if the member has this right over all existing and future
    /// contents of the resource.
    #[must_use]
    pub fn over(&self, resource: &Resource) -> Rights {
        match resource {
            Resource::Mailbox => self.over_mailbox(),
            Resource::Folder(folder) => self
                .folders()
                .filter(|(granted, _)| *granted == folder)
                .fold(self.over_every_folder(), |all, (_, one)| all.and(one)),
            Resource::Alias(address) => self.over_alias(address, false),
            Resource::AliasSet(set) => {
                let all = self.union(|granted| match granted {
                    Resource::Mailbox | Resource::AliasSet(AliasSet::All) => true,
                    // A grant on `Own` does not count, because `Own` refers to different aliases
                    // for each member.
                    Resource::AliasSet(granted @ AliasSet::Domain(_)) => granted == set,
                    _ => false,
                });
                all.only(Rights::OF_ALIAS)
            }
        }
    }

    fn union(&self, of: impl Fn(&Resource) -> bool) -> Rights {
        let counted = self.0.iter().filter(|grant| of(&grant.resource));
        counted.fold(Rights::NONE, |all, grant| all.and(grant.rights))
    }
}

#[cfg(test)]
mod tests;
