//! Invites members to a mailbox. This module checks the caller's password, converts a user name to
//! an address, and generates a key for the mailbox. The directory stores the new key only if the
//! mailbox has no key.

use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::{address, secrets};
use latchmail_directory::events::Kind;
use latchmail_directory::teams::{Invitation, Refusal};

use super::{Error, GrantRequest, Teams};
use crate::auth::account::Confirmation;

/// Allowed length of the local part of an invited address, in characters.
const USERNAME: std::ops::RangeInclusive<usize> = 3..=32;

/// A new member.
#[derive(Clone, Debug)]
pub struct Invited {
    /// The opaque id of the membership.
    pub membership: String,
    /// The id of the member's first grant.
    pub grant: String,
    /// The user name of the new member's account, in the same form as in the list of members.
    pub username: String,
}

impl Teams {
    /// Adds a member and the member's first grant if the caller's own password is correct. For a
    /// wrong password, the result does not reveal whether the invited account exists. `mail` is the
    /// credential of the caller's own mailbox.
    ///
    /// # Errors
    /// Returns an [`Error`] if the request is invalid or refused, or if an operation fails. On
    /// error, no member is added.
    pub async fn invite(
        &self,
        confirmation: Confirmation<'_>,
        mail: &MailCredential,
        mailbox: &str,
        username: &str,
        request: GrantRequest,
        origin: &Origin,
    ) -> Result<Invited, Error> {
        let session = confirmation.session;
        let access = self.managed(session.account, mailbox).await?;
        let mut grant = request.validated()?;
        let address = self.invitee(username)?;
        let confirmed = self
            .auth
            .verifier
            .confirm(confirmation, Kind::InvitationFailed, origin);
        if !confirmed.await? {
            return Err(Error::WrongPassword);
        }
        let address = address.ok_or(Refusal::NoUser)?;
        self.look_up(&mut grant, session.account, mail, mailbox)
            .await?;
        let team = access.team;
        // This invitation creates the mailbox's key. The invitation fails if the mail server is
        // unavailable, because the new member could not open the mailbox with the key.
        if !team.shared {
            self.mail_server.ping().await?;
        }
        let invitation = Invitation {
            membership: secrets::id()?,
            address,
            grant,
            key: self.new_key(mailbox)?,
            at_most: self.plans.named(&team.plan, mailbox).guests,
        };
        let changing = self.changing(session, mailbox);
        let invited = self.directory.teams.invite(changing, &invitation, origin);
        invited.await?;
        Ok(Invited {
            membership: invitation.membership,
            grant: invitation.grant.id,
            username: self.username(&invitation.address),
        })
    }

    /// Returns the address, in lower case, of a user name with or without a domain. Returns `None`
    /// if no account can have this address.
    fn invitee(&self, username: &str) -> Result<Option<String>, Error> {
        let (name, domain) = match username.rsplit_once('@') {
            Some((name, domain)) => (name, address::fold_domain(domain)),
            None => (
                username,
                self.auth
                    .registration
                    .registration_domains()
                    .first()
                    .cloned(),
            ),
        };
        if !USERNAME.contains(&name.chars().count()) {
            return Err(Error::Invalid(Problem::new(
                codes::INVALID_MEMBER,
                "username must be 3 to 32 characters, not counting the domain",
            )));
        }
        Ok(domain.and_then(|domain| address::fold(&format!("{name}@{domain}"))))
    }
}
