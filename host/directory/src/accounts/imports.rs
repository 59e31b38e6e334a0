//! Accounts of users of an existing mail server, which the operator imports.

use std::collections::BTreeSet;

use latchmail_core::caller::Origin;

use super::Accounts;
use crate::accounts::{self, Creation, NewAccount};
use crate::aliases::domain_of;
use crate::db::{Error, Tx};

/// Maximum number of accounts that one transaction creates. With one transaction for each account,
/// SQLite would flush the disk twice for each account. With larger transactions, other writers on
/// SQLite would wait too long.
const BATCH: usize = 250;

const ACCOUNT: &str = "SELECT id FROM accounts WHERE address = $1";

/// A user of the mail server, for whom an account is created before the first sign-in.
#[derive(Clone, Debug)]
pub struct AdoptedUser {
    /// The account to create. The password hash is empty, because the mail server stores the
    /// password.
    pub account: NewAccount,
    /// The mail server's own log-in name of the user, or `None` if the log-in name is the address.
    pub login_name: Option<String>,
}

/// The result of adopting a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The account was created.
    Created,
    /// The account already existed, and its log-in name was set.
    LoginNameSet,
    /// The account already existed. Nothing was changed.
    Unchanged,
    /// The address is an alias or reserved, or an account has verified the domain of the address.
    AddressTaken,
}

impl Accounts {
    /// Creates the accounts of users of the mail server. Sets the log-in name of an existing
    /// account if the name differs. Returns the results in the order of `users`. `users` must be
    /// sorted by address, because two concurrent calls could deadlock otherwise.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The earlier accounts of `users` can exist in that
    /// case. The call can be repeated.
    pub async fn adopt_users(
        &self,
        users: &[AdoptedUser],
        origin: &Origin,
    ) -> Result<Vec<Adoption>, Error> {
        let mut adoptions = Vec::with_capacity(users.len());
        for batch in users.chunks(BATCH) {
            let mut existing = Vec::new();
            let mut tx = self.db.begin().await?;
            let domains = batch.iter().map(|user| domain_of(&user.account.address));
            // Every transaction locks domains in the order of their names, so that transactions
            // cannot deadlock.
            for domain in domains.collect::<BTreeSet<_>>() {
                tx.lock_domain_shared(domain).await?;
            }
            for user in batch {
                let adoption = adopt(&mut tx, user, origin).await?;
                if let Err(account) = &adoption {
                    existing.push((adoptions.len(), account.clone(), user));
                }
                adoptions.push(adoption.unwrap_or(Adoption::Unchanged));
            }
            tx.commit().await?;
            // Set the log-in names in separate transactions. A transaction that locks a domain must
            // not lock an existing account afterwards, because such transactions could deadlock.
            for (index, account, user) in existing {
                if let Some(name) = &user.login_name
                    && self.set_login_name(&account, Some(name)).await?
                {
                    adoptions[index] = Adoption::LoginNameSet;
                }
            }
        }
        Ok(adoptions)
    }
}

/// Creates the account of a user. Returns the id of the account as an error if the account already
/// exists.
async fn adopt(
    tx: &mut Tx,
    user: &AdoptedUser,
    origin: &Origin,
) -> Result<Result<Adoption, String>, Error> {
    let account = &user.account;
    if accounts::create(tx, account, origin).await? == Creation::Created {
        if let Some(name) = &user.login_name {
            accounts::set_login_name(tx, &account.id, Some(name)).await?;
        }
        return Ok(Ok(Adoption::Created));
    }
    let existing: Option<String> = tx.optional_value(ACCOUNT, [&account.address]).await?;
    Ok(existing.map_or(Ok(Adoption::AddressTaken), Err))
}

#[cfg(test)]
mod tests;
