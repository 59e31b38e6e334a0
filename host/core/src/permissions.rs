//! The rights of the members of a shared mailbox, the resources to which they apply, and the union of several grants.
//!
//! Contains values and set operations only. The directory stores the grants, and each module that serves a resource enforces them.

use std::fmt;

/// A right of a member (specification, section 2), in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// `mail:read`
    MailRead,
    /// `mail:write`
    MailWrite,
    /// `mail:send`
    MailSend,
    /// `aliases:read`
    AliasesRead,
    /// `aliases:write`
    AliasesWrite,
    /// `members:manage`
    MembersManage,
}

impl Right {
    /// All rights, in canonical order.
    pub const ALL: [Self; 6] = [
        Self::MailRead,
        Self::MailWrite,
        Self::MailSend,
        Self::AliasesRead,
        Self::AliasesWrite,
        Self::MembersManage,
    ];

    /// Returns the right's name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MailRead => "mail:read",
            Self::MailWrite => "mail:write",
            Self::MailSend => "mail:send",
            Self::AliasesRead => "aliases:read",
            Self::AliasesWrite => "aliases:write",
            Self::MembersManage => "members:manage",
        }
    }

    /// Returns the right with this name, or `None`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the message for a member that lacks a right over something that it may see.
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
    /// Every right. An owner has these.
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

    /// Returns the set of rights with these names, or `None` if a name is unknown. A name may occur several times.
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

    /// Returns `true` if `others` contains every right of the set.
    #[must_use]
    pub const fn within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// Returns the union with `others`.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the intersection with `others`.
    #[must_use]
    pub const fn only(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Iterates over the rights in canonical order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL
            .into_iter()
            .filter(move |right| self.hold(*right))
    }
}

/// The form in which the database stores rights: their names in canonical order, separated by spaces.
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
    /// The folder's UIDVALIDITY when the grant was made. A folder that is created again under the same name has another UIDVALIDITY, and the grant does not
    /// apply to it.
    pub uid_validity: u32,
}

/// A set of aliases, including future ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AliasSet {
    /// Every alias of the mailbox.
    All,
    /// The aliases that the member created.
    Own,
    /// The aliases on one domain, in lower case and ASCII.
    Domain(String),
}

/// The resource of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The mailbox, with everything in it.
    Mailbox,
    /// A folder, without its children.
    Folder(GrantedFolder),
    /// An alias, in lower case.
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
    /// The resource.
    pub resource: Resource,
    /// The rights.
    pub rights: Rights,
}

/// All grants of one member in a mailbox. The member holds the union of their rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Granted>);

impl From<Vec<Granted>> for Grants {
    fn from(grants: Vec<Granted>) -> Self {
        Self(grants)
    }
}

impl Grants {
    /// Returns the grants of an owner: every right on the mailbox.
    #[must_use]
    pub fn owner() -> Self {
        Self(vec![Granted {
            resource: Resource::Mailbox,
            rights: Rights::ALL,
        }])
    }

    /// Returns the member's rights over anything in the mailbox. A list shows these as the member's rights.
    #[must_use]
    pub fn anywhere(&self) -> Rights {
        self.union(|_| true)
    }

    /// Returns the member's rights over the whole mailbox.
    #[must_use]
    pub fn over_mailbox(&self) -> Rights {
        self.union(|resource| *resource == Resource::Mailbox)
    }

    /// Returns the member's rights over every folder.
    #[must_use]
    pub fn over_every_folder(&self) -> Rights {
        self.over_mailbox().only(Rights::OF_FOLDER)
    }

    /// Returns the member's rights over at least one folder.
    #[must_use]
    pub fn over_some_folder(&self) -> Rights {
        let folders = self.union(|resource| matches!(resource, Resource::Folder(_)));
        self.over_every_folder().and(folders)
    }

    /// Iterates over the folders that are granted individually, with the rights of each grant.
    pub fn folders(&self) -> impl Iterator<Item = (&GrantedFolder, Rights)> {
        self.0.iter().filter_map(|grant| match &grant.resource {
            Resource::Folder(folder) => Some((folder, grant.rights)),
            _ => None,
        })
    }

    /// Returns the member's rights over one alias. `created` is `true` if the member created the alias.
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

    /// Returns the member's rights over the mailbox's own address. The address is not an alias, so only grants on the whole mailbox count.
    #[must_use]
    pub fn over_address(&self) -> Rights {
        self.over_mailbox().only(Rights::OF_ALIAS)
    }

    /// Returns the member's rights over an alias that the member creates on a domain.
    #[must_use]
    pub fn over_new_alias(&self, domain: &str) -> Rights {
        let rights = self.union(|resource| match resource {
            Resource::Mailbox | Resource::AliasSet(AliasSet::All | AliasSet::Own) => true,
            Resource::AliasSet(AliasSet::Domain(of)) => of == domain,
            Resource::Alias(_) | Resource::Folder(_) => false,
        });
        rights.only(Rights::OF_ALIAS)
    }

    /// Returns the member's rights over at least one alias, existing or future.
    #[must_use]
    pub fn over_some_alias(&self) -> Rights {
        let rights = self.union(|resource| !matches!(resource, Resource::Folder(_)));
        rights.only(Rights::OF_ALIAS)
    }

    /// Returns `true` if a grant of the member can apply to an alias on this domain.
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

    /// Returns the rights over a resource that the member may grant to others: the rights that it holds over everything that the resource contains now and in
    /// the future.
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
                    // Excludes `Own`, because the aliases that one member created are not those that another member creates.
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
