//! The interface `caller`, for the identity of the caller. The identity contains no secret and no
//! account id.

use latchmail_bindings::latchmail::host::caller::{Host, Identity, Kind};
use latchmail_core::caller::{Credential, Scope};
use secrecy::SecretString;

use super::call::Call;
use super::convert;
use super::host_call::host_call;

impl Host for Call {
    async fn current(&mut self) -> wasmtime::Result<Identity> {
        let _span = host_call("caller.current");
        let Some(caller) = &self.caller else {
            return Ok(Identity {
                kind: Kind::Anonymous,
                address: String::new(),
                admin: false,
                scopes: Vec::new(),
            });
        };
        Ok(Identity {
            kind: match caller.credential {
                Credential::Session { .. } => Kind::Session,
                Credential::ApiToken { .. } => Kind::ApiToken,
                Credential::OAuth { .. } => Kind::Oauth,
            },
            address: caller.address.clone(),
            admin: caller.admin,
            scopes: Scope::ALL
                .into_iter()
                .filter(|scope| caller.holds(*scope))
                .map(convert::scope_to_wit)
                .collect(),
        })
    }

    async fn present_code(&mut self, code: String) -> wasmtime::Result<()> {
        let _span = host_call("caller.present-code");
        self.code = Some(SecretString::from(code));
        Ok(())
    }
}
