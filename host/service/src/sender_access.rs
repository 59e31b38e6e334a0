//! The access with which the service sends the messages of the outbox, without a request.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_core::caller::Origin;
use latchmail_core::error::{Failure, Kind};
use latchmail_mailbox::outbox;
use latchmail_mailbox::{Access, Error, Member};

/// Finds the current access of accounts and members.
#[derive(Debug)]
pub(super) struct SenderAccess {
    pub(super) credentials: ServiceCredentials,
    pub(super) auth: Arc<Auth>,
}

impl SenderAccess {
    async fn find(&self, account: &str, member: Option<&str>) -> Result<Option<Access>, Failure> {
        let Some(member) = member else {
            let credential = self.credentials.credential(account).await?;
            return Ok(credential.map(|credential| Access {
                account: account.to_owned(),
                credential,
                member: None,
            }));
        };
        let Some(address) = self.credentials.active_address(member).await? else {
            return Ok(None);
        };
        let shared = match self.auth.shared(account, member).await {
            Ok(shared) => shared,
            Err(failure) if failure.kind == Kind::NotFound => return Ok(None),
            Err(failure) => return Err(failure),
        };
        Ok(Some(Access {
            account: shared.account,
            credential: shared.mail,
            member: Some(Member {
                account: member.to_owned(),
                grants: shared.grants,
                origin: Origin {
                    actor: address,
                    ..Origin::default()
                },
                permit: None,
            }),
        }))
    }
}

impl outbox::SenderAccess for SenderAccess {
    fn access<'a>(
        &'a self,
        account: &'a str,
        member: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<Access>, Error>> {
        let found = self.find(account, member);
        found
            .map(|result| result.map_err(|failure| Error::Internal(failure.to_string())))
            .boxed()
    }
}
