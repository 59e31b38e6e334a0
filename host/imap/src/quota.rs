//! Reads the quota of the mailbox with GETQUOTAROOT (RFC 9208, and its predecessor RFC 2087).

use imap_proto::Response;
use imap_proto::rfc2087::QuotaResourceName;

use super::session::Session;
use super::{Error, INBOX};

/// The unit of the resource STORAGE (RFC 9208, section 5.1), in bytes.
const STORAGE_UNIT: u64 = 1024;

/// The use and the limit of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The used amount.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// The quota of the mailbox. A resource is `None` if the server reports no limit of the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The size of the messages, in bytes. The server reports units of 1,024 bytes.
    pub storage: Option<ResourceUsage>,
    /// The number of messages.
    pub messages: Option<ResourceUsage>,
}

impl Quota {
    /// Adds a resource of a quota root. If several roots limit a resource, the root with the
    /// smallest remaining amount applies.
    fn add(&mut self, name: &QuotaResourceName<'_>, used: u64, limit: u64) {
        let (resource, unit) = match name {
            QuotaResourceName::Storage => (&mut self.storage, STORAGE_UNIT),
            QuotaResourceName::Message => (&mut self.messages, 1),
            QuotaResourceName::Atom(_) => return,
        };
        let new = ResourceUsage {
            used: used.saturating_mul(unit),
            limit: limit.saturating_mul(unit),
        };
        let remaining = |usage: &ResourceUsage| usage.limit.saturating_sub(usage.used);
        if resource.is_none_or(|known| remaining(&new) < remaining(&known)) {
            *resource = Some(new);
        }
    }
}

impl Session {
    /// Returns the quota of the mailbox. The quota has no limits if the server does not offer the
    /// extension QUOTA.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn quota(&mut self) -> Result<Quota, Error> {
        let mut quota = Quota::default();
        if !self.connection.capabilities.quota {
            return Ok(quota);
        }
        let command = [format!("GETQUOTAROOT {INBOX}")];
        let outcomes = self
            .connection
            .run(&command, &mut |reply, _| {
                if let Response::Quota(root) = reply {
                    for resource in &root.resources {
                        quota.add(&resource.name, resource.usage, resource.limit);
                    }
                }
                Ok(())
            })
            .await?;
        for outcome in outcomes {
            outcome.ok()?;
        }
        Ok(quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    fn quota(replies: &str) -> Quota {
        let mut session = session(&[replies]);
        session.connection.capabilities.quota = true;
        block_on(session.quota()).unwrap()
    }

    #[test]
    fn storage_is_in_bytes_and_unknown_resources_are_ignored() {
        let replies = "* QUOTAROOT INBOX \"User quota\"\r\n\
                       * QUOTA \"User quota\" (STORAGE 3 1024 MESSAGE 2 50 MAILBOX 1 9)\r\n";
        let quota = quota(replies);
        let storage = ResourceUsage {
            used: 3 * 1024,
            limit: 1024 * 1024,
        };
        let messages = ResourceUsage { used: 2, limit: 50 };
        assert_eq!(quota.storage, Some(storage));
        assert_eq!(quota.messages, Some(messages));
    }

    #[test]
    fn the_root_with_the_smallest_remaining_amount_applies() {
        let replies = "* QUOTAROOT INBOX a b\r\n* QUOTA a (STORAGE 1 100)\r\n\
                       * QUOTA b (STORAGE 90 100)\r\n";
        assert_eq!(quota(replies).storage.unwrap().used, 90 * 1024);
    }

    #[test]
    fn a_server_without_the_extension_or_without_limits_has_no_quota() {
        let roots = "* QUOTAROOT INBOX \"User quota\"\r\n* QUOTA \"User quota\" ()\r\n";
        assert_eq!(quota(roots), Quota::default());
        assert_eq!(quota("* QUOTAROOT INBOX\r\n"), Quota::default());
        let mut without = session(&[]);
        assert_eq!(block_on(without.quota()).unwrap(), Quota::default());
    }
}
