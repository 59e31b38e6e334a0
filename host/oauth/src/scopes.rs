//! Determines the scopes that a client requests and the scopes that the client gets (RFC 6749, section 3.3).

use latchmail_core::caller::Scope;

use super::OAuth;
use super::error::Refusal;
use super::parameters::Parameters;

/// Reads the parameter `scope`. Returns the requested scopes in canonical order and without duplicates, or `None` if the request has no such parameter.
///
/// # Errors
/// Returns `invalid_scope` if the parameter contains an unknown name. Returns `invalid_request` if the parameter is repeated.
pub(crate) fn requested(parameters: &Parameters) -> Result<Option<Vec<Scope>>, Refusal> {
    let Some(list) = parameters.one("scope")? else {
        return Ok(None);
    };
    let mut scopes = Vec::new();
    for name in list.split(' ').filter(|name| !name.is_empty()) {
        scopes.push(Scope::named(name).ok_or_else(|| refused("scope contains an unknown scope"))?);
    }
    if scopes.is_empty() {
        return Err(refused("scope contains no scope"));
    }
    scopes.sort_unstable();
    scopes.dedup();
    Ok(Some(scopes))
}

/// Creates the error `invalid_scope`.
pub(crate) fn refused(why: &'static str) -> Refusal {
    Refusal::new("invalid_scope", why)
}

impl OAuth {
    /// Returns the scopes that a client gets, separated by spaces. Without a parameter `scope`, the client gets all scopes that OAuth tokens can have.
    /// Otherwise, the client gets each requested scope that OAuth tokens can have.
    ///
    /// # Errors
    /// Returns the errors of [`requested`] under the same conditions. Returns `invalid_scope` if OAuth tokens can have none of the requested scopes.
    pub(crate) fn granted_scope(&self, parameters: &Parameters) -> Result<String, Refusal> {
        let mut scopes = self.auth.oauth_scopes();
        if let Some(requested) = requested(parameters)? {
            scopes.retain(|scope| requested.contains(scope));
        }
        if scopes.is_empty() {
            return Err(refused(
                "scope contains no scope that an application can be granted",
            ));
        }
        Ok(Scope::list(&scopes))
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
    fn an_unknown_scope_is_refused() {
        for scope in [
            " ",
            "mail",
            "MAIL:READ",
            "mail:read openid",
            "mail:read,aliases:read",
            "mail:read\tmail:write",
        ] {
            assert_eq!(read(scope), Err("invalid_scope"), "{scope:?}");
        }
    }
}
