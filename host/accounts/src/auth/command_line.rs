//! The OAuth client of the command line, `latchmail mail`. Its tokens can have `mail:send` even if
//! agents are not allowed to send mail, because the person who types the commands sends.

use latchmail_core::caller::Scope;

use super::OAuthTokens;

/// The id of the client. The client has no secret, so another program can use the id too. Therefore
/// the client gets `mail:send` only if it requests the scope, and the person sees the scope before
/// the consent.
pub const CLIENT: &str = "latchmail-mail";

impl OAuthTokens {
    /// Returns all scopes that the OAuth tokens of a client can have, if the client requests them.
    #[must_use]
    pub fn client_scopes(&self, client_id: &str) -> Vec<Scope> {
        let send = self.agents_send || client_id == CLIENT;
        let opens = |scope: &Scope| scope.allowed_for_oauth(send);
        Scope::ALL.into_iter().filter(opens).collect()
    }
}
