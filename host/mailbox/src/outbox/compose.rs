//! Composes replies and forwards. [`latchmail_compose`] has the rules.

use latchmail_compose::{Account, Composed, Locale, Mode, OwnAddress};
use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::Right;

use super::files::reading_error;
use super::result::Error;
use super::send::Outbox;
use crate::access::Access;
use crate::blocking;

/// The number of bytes of an original for which a thread of its own pays off. The composition of a
/// short message takes less than a millisecond.
const SIZE_OF_HEADER: usize = 4096;

impl Outbox {
    /// Composes a message about the message with this number. Returns `None` if the message does
    /// not exist. `locale` is a language tag.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn compose(
        &self,
        access: &Access,
        number: MessageNumber,
        mode: Mode,
        locale: Option<&str>,
    ) -> Result<Option<Composed>, Error> {
        let reading = &self.mail.reading;
        let (original, account) =
            tokio::join!(reading.original(access, number), self.account(access));
        let Some((original, memory)) = original.map_err(reading_error)? else {
            return Ok(None);
        };
        let (account, locale) = (account?, Locale::of(locale.unwrap_or_default()));
        let texts = [&original.content.text, &original.content.html];
        let size: usize = texts.into_iter().flatten().map(String::len).sum();
        let composed = blocking::run_sized(size + SIZE_OF_HEADER, move || {
            let composed = latchmail_compose::compose(&original, &account, mode, locale);
            drop(memory);
            composed
        });
        composed.await.map(Some).map_err(Error::Internal)
    }

    /// Returns the addresses of the account, and whether the caller may send from each.
    async fn account(&self, access: &Access) -> Result<Account, Error> {
        let aliases = &self.directory.aliases;
        let all = aliases
            .addresses_of(&access.account, self.clock.now())
            .await?;
        let may_send = |is_account: bool, address: &str, made_by: Option<&str>| {
            let Some(member) = &access.member else {
                return true;
            };
            let rights = if is_account {
                member.grants.over_address()
            } else {
                let is_creator = made_by == Some(member.account.as_str());
                member.grants.over_alias(address, is_creator)
            };
            rights.hold(Right::MailSend)
        };
        let own = all.iter().find(|one| one.is_account);
        let address = own.map(|one| one.address.clone()).unwrap_or_default();
        let addresses = all.into_iter().map(|one| OwnAddress {
            may_send: one.is_sender
                && may_send(one.is_account, &one.address, one.made_by.as_deref()),
            address: one.address,
        });
        Ok(Account {
            address,
            addresses: addresses.collect(),
        })
    }
}
