//! Reads the data of a shared mailbox for the request of a member: the credential for the mailbox,
//! and the member's grants.
//!
//! Changes to teams are in [`super::teams`].

use latchmail_core::permissions::{AliasSet, Granted, GrantedFolder, Grants, Resource, Rights};

use super::Teams;
use crate::db::Error;
use crate::debug::debug_fields;

/// Returns one row for each grant of a member. For a member without a grant, returns one row
/// without a grant. Returns no row if the mailbox is not shared. A mailbox is not shared if its
/// owner is disabled or if the mailbox has no key.
const SHARED: &str = "SELECT a.address, k.app_password_id, k.sealed_password, \
    g.id AS grant_id, g.resource_kind, g.resource_id, g.uid_validity, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.mailbox JOIN team_keys k ON k.mailbox = m.mailbox \
    LEFT JOIN team_grants g ON g.membership = m.id \
    WHERE m.mailbox = $1 AND m.member = $2 AND a.active";

/// A mailbox that is shared with an account.
pub struct SharedMailbox {
    /// The mailbox's address.
    pub address: String,
    /// The id of the app password for the members.
    pub app_password_id: String,
    /// The app password, encrypted with the service's key. Decryption also needs the mailbox's id.
    pub sealed_password: Vec<u8>,
    /// The member's grants.
    pub grants: Grants,
}

debug_fields!(SharedMailbox {
    address,
    app_password_id,
    grants
});

#[derive(sqlx_macros::FromRow)]
struct Row {
    address: String,
    app_password_id: String,
    sealed_password: Vec<u8>,
    grant_id: Option<String>,
    #[sqlx(flatten)]
    grant: GrantRow,
}

/// The columns of a grant. The values are `None` for a member without a grant.
#[derive(sqlx_macros::FromRow)]
pub(crate) struct GrantRow {
    resource_kind: Option<String>,
    resource_id: Option<String>,
    uid_validity: Option<i64>,
    rights: Option<String>,
}

impl Teams {
    /// Returns the data of the mailbox `mailbox` with the grants of the account `member`. Returns
    /// `None` if the mailbox is not shared with this account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn shared_mailbox(
        &self,
        mailbox: &str,
        member: &str,
    ) -> Result<Option<SharedMailbox>, Error> {
        let rows: Vec<Row> = self.db.all(SHARED, (mailbox, member)).await?;
        let granted = |row: &Row| {
            Some(Granted {
                id: row.grant_id.clone()?,
                ..row.grant.granted()?
            })
        };
        let grants: Vec<Granted> = rows.iter().filter_map(granted).collect();
        Ok(rows.into_iter().next().map(|row| SharedMailbox {
            address: row.address,
            app_password_id: row.app_password_id,
            sealed_password: row.sealed_password,
            grants: grants.into(),
        }))
    }
}

impl GrantRow {
    /// Returns the grant. Returns `None` if the row contains no grant or an unknown resource.
    pub(crate) fn granted(&self) -> Option<Granted> {
        let resource = resource(
            self.resource_kind.as_deref()?,
            self.resource_id.as_deref(),
            self.uid_validity,
        )?;
        Some(Granted {
            id: String::new(),
            rights: rights(self.rights.as_deref()?).only(resource.takes()),
            resource,
        })
    }
}

/// Reads the resource of a grant from its database columns. Returns `None` for unknown values.
fn resource(kind: &str, id: Option<&str>, uid_validity: Option<i64>) -> Option<Resource> {
    match (kind, id) {
        ("mailbox", None) => Some(Resource::Mailbox),
        ("folder", Some(id)) => Some(Resource::Folder(GrantedFolder {
            id: id.into(),
            uid_validity: u32::try_from(uid_validity?).ok()?,
        })),
        ("alias", Some(address)) => Some(Resource::Alias(address.into())),
        ("alias_set", Some("all")) => Some(Resource::AliasSet(AliasSet::All)),
        ("alias_set", Some("own")) => Some(Resource::AliasSet(AliasSet::Own)),
        ("alias_set", Some(other)) => {
            let domain = other.strip_prefix("domain:")?;
            Some(Resource::AliasSet(AliasSet::Domain(domain.into())))
        }
        _ => None,
    }
}

/// Reads rights from their database column. Ignores unknown names.
fn rights(kept: &str) -> Rights {
    let each = kept
        .split_whitespace()
        .filter_map(|name| Rights::named([name]));
    each.fold(Rights::NONE, Rights::and)
}
