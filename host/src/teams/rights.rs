//! What the guests of a mailbox may do in it: rights, what they are granted on, and what several grants come to together.
//!
//! Plain values and their arithmetic: who holds which grant is the directory's to say, and that each is kept to is for the rooms to see to which it applies.

use std::fmt;

/// What a guest may be allowed (specification, section 2), in canonical order.
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
    /// All of them, in canonical order.
    pub const ALL: [Self; 6] = [
        Self::MailRead,
        Self::MailWrite,
        Self::MailSend,
        Self::AliasesRead,
        Self::AliasesWrite,
        Self::MembersManage,
    ];

    /// Its name on the wire.
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

    /// The one of this name.
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

/// What a guest is told that lacks a right over something that it may know of.
#[must_use]
pub fn lacking(right: Right) -> String {
    format!("Your rights in this mailbox do not include \"{right}\" here")
}

/// A set of rights.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// Every right: an owner's.
    pub const ALL: Self = Self::of(&Right::ALL);
    /// Those that reach the mail.
    pub const MAIL: Self = Self::of(&[Right::MailRead, Right::MailWrite, Right::MailSend]);
    /// Those that apply to a folder.
    pub const OF_FOLDER: Self = Self::of(&[Right::MailRead, Right::MailWrite]);
    /// Those that apply to an alias.
    pub const OF_ALIAS: Self =
        Self::of(&[Right::MailSend, Right::AliasesRead, Right::AliasesWrite]);

    /// These.
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

    /// Those of these names, each once; none where a name is no right's.
    #[must_use]
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<Self> {
        names
            .into_iter()
            .map(|name| Some(Self::of(&[Right::named(name)?])))
            .try_fold(Self::NONE, |all, one| Some(all.and(one?)))
    }

    /// Whether one is among them.
    #[must_use]
    pub const fn hold(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether each of them is among others.
    #[must_use]
    pub const fn within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// These and others.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Those that are among others too.
    #[must_use]
    pub const fn only(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Each, in canonical order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL
            .into_iter()
            .filter(move |right| self.hold(*right))
    }
}

/// As the database keeps them: their names in canonical order, a blank between two.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, right) in self.iter().enumerate() {
            if place > 0 {
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

/// A folder, as a grant names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedFolder {
    /// Its id: the same through a rename.
    pub id: String,
    /// Its UIDVALIDITY when the grant was made. One that was made anew under the same name has another: the grant does not reach it.
    pub uid_validity: u32,
}

/// Several aliases, also ones to come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AliasSet {
    /// Every alias of the mailbox.
    All,
    /// Those that the guest made.
    Own,
    /// Those of one domain, in lower case and ASCII.
    Domain(String),
}

/// What a grant is on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The mailbox, with all there is in it.
    Mailbox,
    /// A folder, without its children.
    Folder(GrantedFolder),
    /// An alias, in lower case.
    Alias(String),
    /// Several aliases.
    AliasSet(AliasSet),
}

impl Resource {
    /// The rights that can be granted on it.
    #[must_use]
    pub const fn takes(&self) -> Rights {
        match self {
            Self::Mailbox => Rights::ALL,
            Self::Folder(_) => Rights::OF_FOLDER,
            Self::Alias(_) | Self::AliasSet(_) => Rights::OF_ALIAS,
        }
    }
}

/// A resource and what is granted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// On what.
    pub resource: Resource,
    /// What.
    pub rights: Rights,
}

/// All that one guest was granted in a mailbox. Their union counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Granted>);

impl From<Vec<Granted>> for Grants {
    fn from(grants: Vec<Granted>) -> Self {
        Self(grants)
    }
}

impl Grants {
    /// An owner's: everything.
    #[must_use]
    pub fn owner() -> Self {
        Self(vec![Granted {
            resource: Resource::Mailbox,
            rights: Rights::ALL,
        }])
    }

    /// What is held of anything: what a list shows as the member's rights.
    #[must_use]
    pub fn anywhere(&self) -> Rights {
        self.union(|_| true)
    }

    /// What is held of the mailbox as a whole.
    #[must_use]
    pub fn over_mailbox(&self) -> Rights {
        self.union(|resource| *resource == Resource::Mailbox)
    }

    /// What is held of every folder.
    #[must_use]
    pub fn over_every_folder(&self) -> Rights {
        self.over_mailbox().only(Rights::OF_FOLDER)
    }

    /// What is held of any folder, one at least.
    #[must_use]
    pub fn over_some_folder(&self) -> Rights {
        let folders = self.union(|resource| matches!(resource, Resource::Folder(_)));
        self.over_every_folder().and(folders)
    }

    /// The folders that are granted each by itself, with what is held of them.
    pub fn folders(&self) -> impl Iterator<Item = (&GrantedFolder, Rights)> {
        self.0.iter().filter_map(|grant| match &grant.resource {
            Resource::Folder(folder) => Some((folder, grant.rights)),
            _ => None,
        })
    }

    /// What is held of one alias; `made` is whether the guest made it.
    #[must_use]
    pub fn over_alias(&self, address: &str, made: bool) -> Rights {
        let domain = address.rsplit('@').next().unwrap_or_default();
        let rights = self.union(|resource| match resource {
            Resource::Mailbox | Resource::AliasSet(AliasSet::All) => true,
            Resource::AliasSet(AliasSet::Own) => made,
            Resource::AliasSet(AliasSet::Domain(of)) => of == domain,
            Resource::Alias(one) => one == address,
            Resource::Folder(_) => false,
        });
        rights.only(Rights::OF_ALIAS)
    }

    /// What is held of the mailbox's own address, which is no alias: who may use it holds the mailbox.
    #[must_use]
    pub fn over_address(&self) -> Rights {
        self.over_mailbox().only(Rights::OF_ALIAS)
    }

    /// What is held of an alias that the guest makes on a domain.
    #[must_use]
    pub fn over_new_alias(&self, domain: &str) -> Rights {
        let rights = self.union(|resource| match resource {
            Resource::Mailbox | Resource::AliasSet(AliasSet::All | AliasSet::Own) => true,
            Resource::AliasSet(AliasSet::Domain(of)) => of == domain,
            Resource::Alias(_) | Resource::Folder(_) => false,
        });
        rights.only(Rights::OF_ALIAS)
    }

    /// What is held of some alias, one at least or one to come.
    #[must_use]
    pub fn over_some_alias(&self) -> Rights {
        let rights = self.union(|resource| !matches!(resource, Resource::Folder(_)));
        rights.only(Rights::OF_ALIAS)
    }

    /// Whether a domain is one that the guest can have to do with: one on which it may be granted an alias.
    #[must_use]
    pub fn reach_domain(&self, domain: &str) -> bool {
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

    /// What may be handed on of a resource: what is held of all there is and will be in it.
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
                let all = self.union(|held| match held {
                    Resource::Mailbox | Resource::AliasSet(AliasSet::All) => true,
                    // What one guest made is not what another makes.
                    Resource::AliasSet(held @ AliasSet::Domain(_)) => held == set,
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
