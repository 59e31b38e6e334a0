//! Checks from which addresses an account is allowed to send.

use latchmail_core::clock::Timestamp;

use super::Aliases;
use crate::aliases::DomainOwner;
use crate::db::Error;

/// Returns a row if the address belongs to the account. The domain of an alias must be a platform
/// domain or a verified domain of the account. The views from which mail servers read the permitted
/// senders have the same condition.
const OWN: &str = "SELECT 1 FROM addresses a WHERE a.address = $1 AND a.account_id = $2 AND a.live AND a.active \
    AND (a.expires_at IS NULL OR a.expires_at > $3) AND (a.kind = 'account' OR (a.kind = 'alias' AND ( \
        EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = a.domain) \
        OR EXISTS (SELECT 1 FROM domains d WHERE d.domain = a.domain AND d.account_id = $2 AND d.verified_at IS NOT NULL))))";

/// Returns a row if the address belongs to any active account of the service and receives mail.
const DELIVERABLE: &str = "SELECT 1 FROM addresses a JOIN accounts c ON c.id = a.account_id WHERE a.address = $1 \
    AND c.active AND a.live AND a.active AND (a.expires_at IS NULL OR a.expires_at > $2) AND (a.kind = 'account' OR (a.kind = 'alias' AND ( \
        EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = a.domain) \
        OR EXISTS (SELECT 1 FROM domains d WHERE d.domain = a.domain AND d.account_id = a.account_id AND d.verified_at IS NOT NULL))))";

/// The relation of an address to an account that wants to send from the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRelation {
    /// The account's own address, or an active alias of the account.
    Own,
    /// An address on a domain that the account may use. The account is not allowed to send from the
    /// address.
    Foreign,
    /// An address on a domain that the account is not allowed to use.
    ForeignDomain,
}

/// Returns a row if the address is an alias of the account. The row contains the member who created
/// the alias, or NULL if the owner created the alias.
const MADE_BY: &str = "SELECT made_by FROM addresses WHERE address = $1 AND account_id = $2 AND kind = 'alias' AND live";

/// Reads the addresses that receive mail for an account, and whether mail can be sent from each.
const ALL_OWN: &str = "SELECT a.address, (a.kind = 'account') AS is_account, (a.active \
    AND (a.expires_at IS NULL OR a.expires_at > $2) AND (a.kind = 'account' \
        OR EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = a.domain) \
        OR EXISTS (SELECT 1 FROM domains d WHERE d.domain = a.domain AND d.account_id = $1 AND d.verified_at IS NOT NULL))) AS is_sender, \
    a.made_by FROM addresses a WHERE a.account_id = $1 AND a.live AND a.kind IN ('account', 'alias') ORDER BY a.address";

/// An address of an account.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct AccountAddress {
    /// The address, in lower case.
    pub address: String,
    /// `true` for the account's own address, and `false` for an alias.
    pub is_account: bool,
    /// `true` if the account is allowed to send from the address.
    pub is_sender: bool,
    /// The account of the member who created the alias.
    pub made_by: Option<String>,
}

impl Aliases {
    /// Returns the own address and all aliases of an account, sorted by address. An inactive alias
    /// is not a sender.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn addresses_of(
        &self,
        account: &str,
        now: Timestamp,
    ) -> Result<Vec<AccountAddress>, Error> {
        self.db.all(ALL_OWN, (account, now)).await
    }

    /// Returns `true` if the address belongs to an active account of the service and receives mail
    /// at `now`. `address` must be in lower case.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_deliverable(&self, address: &str, now: Timestamp) -> Result<bool, Error> {
        let found: Option<()> = self.lookup.one(DELIVERABLE, (address, now)).await?;
        Ok(found.is_some())
    }

    /// Returns the account id of the member who created the alias `address`. Returns `Some(None)`
    /// if the account's owner created the alias. Returns `None` if the account has no such alias.
    /// `address` must be in lower case.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn maker(
        &self,
        account: &str,
        address: &str,
    ) -> Result<Option<Option<String>>, Error> {
        self.db.optional_value(MADE_BY, (address, account)).await
    }

    /// Returns the relation of `address` to an account at `now`. `address` must be in lower case.
    /// An alias that has expired is not the account's own.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn address_relation(
        &self,
        account: &str,
        address: &str,
        now: Timestamp,
    ) -> Result<AddressRelation, Error> {
        let own: Option<()> = self.lookup.one(OWN, (address, account, now)).await?;
        if own.is_some() {
            return Ok(AddressRelation::Own);
        }
        let domain = address.rsplit('@').next().unwrap_or_default();
        Ok(match self.domain_owner(account, domain).await? {
            DomainOwner::Platform | DomainOwner::Own => AddressRelation::Foreign,
            DomainOwner::Foreign => AddressRelation::ForeignDomain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use crate::testing::{Fresh, NOW, both};

    async fn only_the_address_of_an_active_account_receives_mail(fresh: Fresh) {
        let config = &fresh.config;
        Directory::open(config, &["example.org".into()])
            .await
            .unwrap();
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        directory.with("bob", "bob@example.org", &[]).await;
        fresh.domain("ada", "ada.example", true).await;
        fresh
            .execute(
                "INSERT INTO addresses (address, kind, account_id, live, active) VALUES \
                 ('on@example.org', 'alias', 'ada', TRUE, TRUE), ('off@example.org', 'alias', 'ada', TRUE, FALSE), \
                 ('me@ada.example', 'alias', 'ada', TRUE, TRUE), ('me@bob.example', 'alias', 'bob', TRUE, TRUE)",
            )
            .await;
        fresh
            .execute("UPDATE accounts SET active = FALSE WHERE id = 'bob'")
            .await;
        for (address, is_deliverable) in [
            ("ada@example.org", true),
            ("on@example.org", true),
            ("me@ada.example", true),
            ("off@example.org", false),
            ("me@bob.example", false),
            ("bob@example.org", false),
            ("nobody@example.org", false),
        ] {
            let found = directory.aliases.is_deliverable(address, NOW).await;
            assert_eq!(found.unwrap(), is_deliverable, "{address}");
        }
    }

    async fn an_address_is_ones_own_while_it_is_live_and_active(fresh: Fresh) {
        let config = &fresh.config;
        Directory::open(config, &["example.org".into()])
            .await
            .unwrap();
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        directory.with("bob", "bob@example.org", &[]).await;
        fresh.domain("ada", "ada.example", true).await;
        fresh.domain("ada", "pending.example", false).await;
        fresh.domain("bob", "bob.example", true).await;
        fresh
            .execute(
                "INSERT INTO addresses (address, kind, account_id, live, active) VALUES \
                 ('on@example.org', 'alias', 'ada', TRUE, TRUE), ('off@example.org', 'alias', 'ada', TRUE, FALSE), \
                 ('gone@example.org', 'alias', 'ada', FALSE, TRUE), ('held@example.org', 'held', 'ada', TRUE, TRUE), \
                 ('me@ada.example', 'alias', 'ada', TRUE, TRUE), ('off@ada.example', 'alias', 'ada', TRUE, FALSE), \
                 ('me@bob.example', 'alias', 'bob', TRUE, TRUE), ('me@once.example', 'alias', 'ada', TRUE, TRUE), \
                 ('ada@bob.example', 'alias', 'ada', TRUE, TRUE), ('me@pending.example', 'alias', 'ada', TRUE, TRUE)",
            )
            .await;
        for (address, address_relation) in [
            ("ada@example.org", AddressRelation::Own),
            ("on@example.org", AddressRelation::Own),
            ("off@example.org", AddressRelation::Foreign),
            ("gone@example.org", AddressRelation::Foreign),
            ("held@example.org", AddressRelation::Foreign),
            ("bob@example.org", AddressRelation::Foreign),
            ("nobody@example.org", AddressRelation::Foreign),
            ("me@ada.example", AddressRelation::Own),
            ("off@ada.example", AddressRelation::Foreign),
            ("nobody@ada.example", AddressRelation::Foreign),
            ("me@pending.example", AddressRelation::ForeignDomain),
            ("me@bob.example", AddressRelation::ForeignDomain),
            ("ada@bob.example", AddressRelation::ForeignDomain),
            ("me@once.example", AddressRelation::ForeignDomain),
            ("me@sub.ada.example", AddressRelation::ForeignDomain),
            ("ada@elsewhere.example", AddressRelation::ForeignDomain),
            ("", AddressRelation::ForeignDomain),
        ] {
            assert_eq!(
                directory
                    .aliases
                    .address_relation("ada", address, NOW)
                    .await
                    .unwrap(),
                address_relation,
                "{address}"
            );
        }
        let all = directory.aliases.addresses_of("ada", NOW).await.unwrap();
        let senders: Vec<_> = all.iter().filter(|one| one.is_sender).collect();
        let senders: Vec<_> = senders
            .iter()
            .map(|one| (&*one.address, one.is_account))
            .collect();
        let expected = [
            ("ada@example.org", true),
            ("me@ada.example", false),
            ("on@example.org", false),
        ];
        assert_eq!(senders, expected);
        let others: Vec<_> = all.iter().filter(|one| !one.is_sender).collect();
        let others: Vec<_> = others.iter().map(|one| &*one.address).collect();
        let expected = [
            "ada@bob.example",
            "me@once.example",
            "me@pending.example",
            "off@ada.example",
            "off@example.org",
        ];
        assert_eq!(others, expected);
    }

    both!(
        only_the_address_of_an_active_account_receives_mail,
        an_address_is_ones_own_while_it_is_live_and_active
    );
}
