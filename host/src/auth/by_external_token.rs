//! The caller behind an access token of an authorization server elsewhere.

use super::external::{External, OpaqueToken, Verdict};
use super::{Auth, BAD_ACCESS_TOKEN};
use crate::caller::{Caller, Credential, MailCredential, Proof};
use crate::error::Failure;

impl Auth {
    /// Who presents a token that only that server knows: an active account here with the address that the server names.
    ///
    /// # Errors
    /// 401 where the token is no good, 503 where the server cannot be asked, 500.
    pub(super) async fn by_external_token(
        &self,
        external: &External,
        token: &OpaqueToken,
    ) -> Result<Caller, Failure> {
        let refused = |why| Failure::unauthorized(BAD_ACCESS_TOKEN).because(why);
        let subject = match external.judge(token).await? {
            Verdict::Good(subject) => subject,
            Verdict::Refused(why) => return Err(refused(why)),
        };
        // Asked each time: whoever is disabled here is out at once.
        let account = self.directory.account_by_address(&subject.address).await?;
        let account = account
            .filter(|account| account.active)
            .ok_or_else(|| refused("no active account has the address that the token is for"))?;
        let hash = token.hash();
        Ok(Caller {
            account: account.id,
            mail: MailCredential {
                id: hash.to_owned(),
                username: account.address.clone(),
                proof: Proof::AccessToken {
                    token: token.secret().clone(),
                    until: subject.until.map(|until| external.instant(until)),
                },
            },
            address: account.address,
            admin: account.admin,
            credential: Credential::OAuth {
                id: hash.to_owned(),
                audience: subject.audience,
                scopes: self.oauth_scopes(),
            },
            shared: None,
        })
    }
}
