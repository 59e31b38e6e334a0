//! Checks the sender of a message.

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::permissions::Right;
use latchmail_directory::aliases::addresses::AddressRelation;

use super::envelope::{EnvelopeAddress, Sender};
use super::result::Error;
use super::send::Outbox;
use crate::access::{Access, Member};

impl Outbox {
    /// Checks that the caller is allowed to send from an address. The address must be the account's
    /// own address or an active alias. A member also needs a grant for the address.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller is not allowed to send from the address. Returns
    /// [`Error::Internal`] if the directory fails.
    pub async fn check_sender(&self, access: Access, address: &str) -> Result<Sender, Error> {
        let not_own = || {
            Error::Denied(Problem::new(
                codes::SENDER_NOT_ALLOWED,
                "You can only send from your own address or active aliases",
            ))
        };
        let account = &access.account;
        let address = EnvelopeAddress::parse(address).ok_or_else(not_own)?;
        let folded = address.to_string().to_lowercase();
        if let Some(member) = &access.member
            && !self.has_send_grant(account, member, &folded).await?
        {
            return Err(not_own());
        }
        match self
            .directory
            .aliases
            .address_relation(account, &folded, self.clock.now())
            .await?
        {
            AddressRelation::Own => Ok(Sender { access, address }),
            AddressRelation::Foreign => Err(not_own()),
            AddressRelation::ForeignDomain => Err(Error::Denied(Problem::new(
                codes::SENDER_DOMAIN_NOT_ALLOWED,
                "You do not have permission to send from this domain",
            ))),
        }
    }

    /// Returns `true` if a member has a grant to send from an address of the account.
    async fn has_send_grant(
        &self,
        account: &str,
        member: &Member,
        address: &str,
    ) -> Result<bool, Error> {
        let rights = match self.directory.aliases.maker(account, address).await? {
            Some(creator) => {
                let is_creator = creator.as_deref() == Some(member.account.as_str());
                member.grants.over_alias(address, is_creator)
            }
            None => member.grants.over_address(),
        };
        Ok(rights.hold(Right::MailSend))
    }
}
