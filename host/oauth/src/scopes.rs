//! Determines the scopes that a client requests and the scopes that the client gets (RFC 6749,
//! section 3.3).

use latchmail_accounts::auth::oauth_tokens::stored_scopes;
use latchmail_core::caller::Scope;

use super::OAuth;
use super::error::Refusal;
use super::parameters::Parameters;

/// Reads the parameter `scope`. Returns the requested scopes in canonical order and without
/// duplicates, or `None` if the request has no such parameter. Ignores unknown names, because many
/// clients also request `openid` or `offline_access`.
///
/// # Errors
/// Returns `invalid_scope` if the parameter contains no known name. Returns `invalid_request` if
/// the parameter is repeated.
pub(crate) fn requested(parameters: &Parameters) -> Result<Option<Vec<Scope>>, Refusal> {
    let Some(list) = parameters.one("scope")? else {
        return Ok(None);
    };
    let scopes = Scope::read_list(list);
    if scopes.is_empty() {
        return Err(refused("scope contains no scope of this service"));
    }
    Ok(Some(scopes))
}

/// Creates the error `invalid_scope`.
pub(crate) fn refused(why: &'static str) -> Refusal {
    Refusal::new("invalid_scope", why)
}

impl OAuth {
    /// Returns the scopes that a client gets, in the form of [`stored_scopes`]. Without a parameter
    /// `scope`, the client gets all scopes that OAuth tokens of every client can have. Otherwise,
    /// the client gets each requested scope that its OAuth tokens can have.
    ///
    /// # Errors
    /// Returns the errors of [`requested`] under the same conditions. Returns `invalid_scope` if
    /// OAuth tokens can have none of the requested scopes.
    pub(crate) fn granted_scope(
        &self,
        client_id: &str,
        parameters: &Parameters,
    ) -> Result<String, Refusal> {
        let tokens = &self.auth.oauth_tokens;
        let scopes = match requested(parameters)? {
            Some(requested) => {
                let mut scopes = tokens.client_scopes(client_id);
                scopes.retain(|scope| requested.contains(scope));
                scopes
            }
            None => tokens.oauth_scopes(),
        };
        if scopes.is_empty() {
            return Err(refused(
                "scope contains no scope that an application can be granted",
            ));
        }
        Ok(stored_scopes(&scopes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(scope: &str) -> Result<Option<Vec<Scope>>, &'static str> {
        let pairs = vec![("scope".to_owned(), scope.to_owned())];
        requested(&Parameters::new(pairs)).map_err(|refusal| refusal.code)
    }

    #[test]
    fn scopes_are_read_in_any_order() {
        let both = vec![Scope::MailRead, Scope::AliasesRead];
        assert_eq!(read("aliases:read mail:read  mail:read"), Ok(Some(both)));
        assert_eq!(read(""), Ok(None));
        assert_eq!(requested(&Parameters::new(Vec::new())), Ok(None));
    }

    #[test]
    fn unknown_scopes_are_ignored() {
        for scope in [
            "mail:read openid",
            "offline_access mail:read profile email",
            "mail:read mail:write,aliases:read",
        ] {
            assert_eq!(read(scope), Ok(Some(vec![Scope::MailRead])), "{scope:?}");
        }
    }

    #[test]
    fn a_list_without_a_known_scope_is_refused() {
        for scope in [
            " ",
            "mail",
            "MAIL:READ",
            "openid offline_access",
            "mail:read,aliases:read",
            "mail:read\tmail:write",
        ] {
            assert_eq!(read(scope), Err("invalid_scope"), "{scope:?}");
        }
    }
}
