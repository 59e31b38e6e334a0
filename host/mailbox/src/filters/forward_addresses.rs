//! Addresses outside of the service to which rules can forward mail. The service sends a code to
//! such an address. The owner of the mailbox confirms the address with this code, which proves that
//! a reader of the address agrees.

use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::secrets;
pub use latchmail_directory::forward_addresses::ForwardAddress;
use latchmail_directory::forward_addresses::{Limits, NewForwardAddress, Requested};
use latchmail_shape::addresses::parse_address;

use super::{Change, Error, Filters, check_owner};
use crate::access::Access;
use crate::outbox::{self, Draft, HeaderField, Recipient, notice};

/// The limits of an account.
const LIMITS: Limits = Limits {
    addresses: 10,
    requests: 10,
};

/// Number of symbols of a code, which has 5 random bits for each symbol.
const CODE: usize = 24;

/// The text for a caller who is not the owner of the mailbox.
const OWNER_ONLY: &str = "Only the owner of a mailbox can use its forward addresses";

impl Filters {
    /// Returns the forward addresses of the caller's own mailbox, in the order of their requests.
    ///
    /// # Errors
    /// Returns an [`Error`] if the caller is a member, or if the database fails.
    pub async fn forward_addresses(&self, access: &Access) -> Result<Vec<ForwardAddress>, Error> {
        check_owner(access, OWNER_ONLY)?;
        let listed = self
            .stored_addresses()
            .list(&access.account, self.clock.now());
        Ok(listed.await.map_err(crate::Error::from)?)
    }

    /// Sends a code to an address. An earlier code for the address is no longer valid.
    ///
    /// # Errors
    /// Returns an [`Error`] if the address is invalid or already confirmed, if the account exceeds
    /// a limit, or if the message cannot be sent.
    pub async fn request_forward_address(
        self: &Arc<Self>,
        access: &Access,
        address: &str,
    ) -> Result<ForwardAddress, Error> {
        check_owner(access, OWNER_ONLY)?;
        let address = folded(address).ok_or_else(|| {
            let text = "address must be a mail address";
            Error::Invalid(Problem::new(codes::INVALID_FORWARD_ADDRESS, text))
        })?;
        let (filters, access) = (Arc::clone(self), access.clone());
        self.run(async move { filters.request(&access, &address).await })
            .await
    }

    async fn request(&self, access: &Access, address: &str) -> Result<ForwardAddress, Error> {
        let (stored, now) = (self.stored_addresses(), self.clock.now());
        let id = secrets::id().map_err(outbox::Error::from)?;
        let code = secrets::symbols::<CODE>().map_err(outbox::Error::from)?;
        let new = NewForwardAddress {
            id: &id,
            account: &access.account,
            address,
            code_hash: &secrets::sha256_hex(&code),
        };
        let requested = stored.request(new, LIMITS, now).await;
        match requested.map_err(crate::Error::from)? {
            Requested::Stored => {}
            Requested::Confirmed => {
                let text = "The forward address is already confirmed";
                return Err(conflict(codes::FORWARD_ADDRESS_CONFIRMED, text));
            }
            Requested::TooManyAddresses => {
                let text = "The account has 10 forward addresses; delete one first";
                return Err(conflict(codes::TOO_MANY_FORWARD_ADDRESSES, text));
            }
            Requested::TooManyRequests => {
                let text = "The account has requested 10 forward addresses within 24 hours";
                return Err(conflict(codes::TOO_MANY_FORWARD_ADDRESSES, text));
            }
        }
        if let Err(error) = self.send_code(access, address, &code).await {
            // After an unknown outcome, the code may have arrived.
            if !matches!(error, outbox::Error::Unknown(_)) {
                stored.forget(&id).await.map_err(crate::Error::from)?;
            }
            return Err(error.into());
        }
        let found = stored.find(&access.account, &id, now).await;
        let gone = || crate::Error::Internal("the forward address was deleted".into());
        Ok(found.map_err(crate::Error::from)?.ok_or_else(gone)?)
    }

    /// Sends a code. The message has no text that the account chooses, and an answer goes to an
    /// address that no account can have, because an answer can quote the code.
    async fn send_code(
        &self,
        access: &Access,
        address: &str,
        code: &str,
    ) -> Result<(), outbox::Error> {
        let account = self.directory.accounts.active(&access.account).await?;
        let own = account.map(|account| account.address).ok_or_else(|| {
            outbox::Error::Internal("the account of the caller does not exist".into())
        })?;
        let from = self.outbox.check_sender(access.clone(), &own).await?;
        let no_reply = format!("noreply@{}", from.address.domain());
        let draft = Draft {
            from,
            from_name: String::new(),
            to: vec![Recipient::new(String::new(), address)?],
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: vec![Recipient::new(String::new(), &no_reply)?],
            subject: format!("May {own} forward mail to you?"),
            text: Some(format!(
                "The owner of the mailbox {own} wants to forward mail to this address:\n\
                 {address}\n\n\
                 To allow this, give the owner this code within 24 hours:\n\n    {code}\n\n\
                 If you do not want this, or do not know the owner, ignore this message and\n\
                 tell nobody the code. Without the code, no mail is forwarded.\n"
            )),
            html: None,
            in_reply_to: None,
            references: Vec::new(),
            headers: vec![HeaderField {
                name: "Auto-Submitted".into(),
                value: "auto-generated".into(),
            }],
            files: Vec::new(),
            original: None,
        };
        Box::pin(notice::send(&self.outbox, draft)).await
    }

    /// Confirms an address with the code that the service sent to it. Has no effect on a confirmed
    /// address. Returns `None` if there is no such address, or if its request has expired.
    ///
    /// # Errors
    /// Returns an [`Error`] if the code is wrong, or if the operation fails.
    pub async fn confirm_forward_address(
        &self,
        access: &Access,
        id: &str,
        code: &str,
        origin: &Origin,
    ) -> Result<Option<ForwardAddress>, Error> {
        check_owner(access, OWNER_ONLY)?;
        let (stored, account, now) = (self.stored_addresses(), &access.account, self.clock.now());
        let confirmed = async {
            let Some(found) = stored.find(account, id, now).await? else {
                return Ok(None);
            };
            if found.confirmed_at().is_some() {
                return Ok(Some((found, true)));
            }
            let hash = secrets::sha256_hex(code.trim());
            let is_new = stored.confirm(account, &found, &hash, now, origin).await?;
            let current = stored.find(account, id, now).await?;
            Ok::<_, latchmail_directory::Error>(current.map(|current| (current, is_new)))
        };
        match confirmed.await.map_err(crate::Error::from)? {
            Some((_, false)) => {
                let text = "The code is wrong";
                let problem = Problem::new(codes::WRONG_FORWARD_CODE, text);
                Err(Error::Invalid(problem))
            }
            confirmed => Ok(confirmed.map(|(found, _)| found)),
        }
    }

    /// Deletes an address, and disables the rules that forward mail to it. Returns `false` if there
    /// is no such address. If the rules cannot be changed, returns an error, and the address is no
    /// longer listed: a repeated call changes the rules.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn delete_forward_address(
        self: &Arc<Self>,
        access: &Access,
        id: &str,
        origin: &Origin,
    ) -> Result<bool, Error> {
        check_owner(access, OWNER_ONLY)?;
        let (stored, now) = (self.stored_addresses(), self.clock.now());
        let deleted = stored.delete(&access.account, id, now, origin).await;
        let Some(address) = deleted.map_err(crate::Error::from)? else {
            return Ok(false);
        };
        // A later request for the address may be confirmed.
        let is_confirmed = stored.is_confirmed(&access.account, &address).await;
        if is_confirmed.map_err(crate::Error::from)? {
            return Ok(true);
        }
        match self.change(access, Change::NoForward(address), None).await {
            Ok(_) | Err(Error::Unsupported) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn stored_addresses(&self) -> &latchmail_directory::forward_addresses::ForwardAddresses {
        &self.directory.forward_addresses
    }
}

/// Returns an address in the form in which addresses are stored. Returns `None` if the text is not
/// an address.
pub(super) fn folded(address: &str) -> Option<String> {
    parse_address(address).map(|address| address.to_lowercase())
}

fn conflict(code: latchmail_core::Code, text: &'static str) -> Error {
    Error::Conflict(Problem::new(code, text))
}
