//! The names of scopes.

use crate::capability::Scope;

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
    let found = ALL.iter().find(|(known, _)| *known == scope);
    found.map_or("", |(_, name)| name)
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
    }
}
