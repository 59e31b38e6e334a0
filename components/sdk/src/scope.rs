//! The scopes of credentials. In the contract, a scope is a string, so that later hosts can have
//! more scopes.

/// A scope that a route or a token needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `mail:read`
    MailRead,
    /// `mail:send`
    MailSend,
    /// `mail:write`
    MailWrite,
    /// `aliases:read`
    AliasesRead,
    /// `aliases:write`
    AliasesWrite,
    /// `profile:read`
    ProfileRead,
    /// A scope of a later host. Hosts refuse a module or an argument with a scope that the host
    /// does not know.
    Other(&'static str),
}

/// All scopes with their names, in canonical order.
pub const ALL: [(Scope, &str); 6] = [
    (Scope::MailRead, "mail:read"),
    (Scope::MailSend, "mail:send"),
    (Scope::MailWrite, "mail:write"),
    (Scope::AliasesRead, "aliases:read"),
    (Scope::AliasesWrite, "aliases:write"),
    (Scope::ProfileRead, "profile:read"),
];

/// Returns the scope with this name, or `None` if the name is unknown.
#[must_use]
pub fn named(name: &str) -> Option<Scope> {
    let found = ALL.iter().find(|(_, known)| *known == name)?;
    Some(found.0)
}

/// Returns the name of a scope.
#[must_use]
pub fn name(scope: Scope) -> &'static str {
    if let Scope::Other(name) = scope {
        return name;
    }
    let found = ALL.iter().find(|(known, _)| *known == scope);
    found.map_or("", |(_, name)| name)
}

/// Returns the names of scopes.
pub(crate) fn names(scopes: &[Scope]) -> Vec<String> {
    scopes.iter().map(|scope| name(*scope).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_found_only_by_its_exact_name() {
        for (scope, text) in ALL {
            assert_eq!(named(text), Some(scope));
            assert_eq!(name(scope), text);
        }
        for other in ["", "mail", "MAIL:READ", "mail:read ", "admin"] {
            assert_eq!(named(other), None);
        }
        assert_eq!(name(Scope::Other("calendar:read")), "calendar:read");
    }

    #[test]
    fn the_scopes_are_those_of_the_manifest_check() {
        assert_eq!(ALL.map(|(_, name)| name), latchmail_shape::SCOPES);
    }
}
