//! Finds what needs the operator's consent: the public routes of a new module, and the permissions that a new version has and the previous version
//! did not.

use std::collections::BTreeSet;

use latchmail_core::caller::Scope;

use crate::modules::{Access, Manifest, Module, Route, granted};

/// Returns one phrase for each new import, new route, and route with wider access. Empty if `new` needs no more than `old`.
pub(super) fn more(old: &Manifest, old_imports: &[String], new: &Module) -> Vec<String> {
    let mut more = imports(old_imports, new.imports());
    more.extend(routes(&old.routes, &new.manifest().routes));
    more
}

/// Returns one phrase for each public route of a new module.
pub(super) fn public(new: &Manifest) -> Vec<String> {
    new.routes
        .iter()
        .filter(|route| route.access == Access::Public)
        .map(|route| format!("it has the public route {} {}", route.method, route.path))
        .collect()
}

/// Returns one phrase for each import and route, if the previous version is unknown.
pub(super) fn all(new: &Module) -> Vec<String> {
    let mut all = imports(&[], new.imports());
    all.extend(routes(&[], &new.manifest().routes));
    all
}

/// Compares interfaces without their versions: a later minor version is the same interface. Interfaces that every module has need no consent.
fn imports(old: &[String], new: &[String]) -> Vec<String> {
    let had: BTreeSet<&str> = old.iter().map(|import| interface(import)).collect();
    new.iter()
        .filter(|import| !had.contains(interface(import)) && !granted(import, &[]))
        .map(|import| format!("it imports {import}"))
        .collect()
}

fn interface(import: &str) -> &str {
    import.split('@').next().unwrap_or(import)
}

fn routes(old: &[Route], new: &[Route]) -> Vec<String> {
    new.iter()
        .filter_map(|route| {
            let same =
                |had: &&Route| had.method == route.method && shape(&had.path) == shape(&route.path);
            let before = old.iter().find(same);
            match before {
                None => Some(format!("it has the route {} {}", route.method, route.path)),
                Some(before) if weaker(before.access, route.access) => Some(format!(
                    "{} {} is for {} instead of {}",
                    route.method, route.path, route.access, before.access
                )),
                Some(_) => None,
            }
        })
        .collect()
}

/// Returns the segments of a path without their names, which do not affect matching.
fn shape(path: &str) -> Vec<&str> {
    path.split('/')
        .map(|segment| {
            if segment.starts_with('{') {
                "{}"
            } else {
                segment
            }
        })
        .collect()
}

/// Returns whether `new` authorizes callers that `old` did not.
fn weaker(old: Access, new: Access) -> bool {
    let had = let_in(old);
    let more = || let_in(new).iter().any(|who| !had.contains(who));
    old != Access::Public && (new == Access::Public || more())
}

/// The kinds of callers of a route that is not public.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Administrator,
    Session,
    Token(Scope),
    OAuth,
}

fn let_in(access: Access) -> Vec<Who> {
    let sessions = [Who::Administrator, Who::Session];
    match access {
        Access::Public => Vec::new(),
        Access::Admin => vec![Who::Administrator],
        Access::Session => sessions.to_vec(),
        Access::Scoped { scope, oauth } => {
            let oauth = oauth.then_some(Who::OAuth);
            let tokens = [Who::Token(scope)];
            sessions.into_iter().chain(tokens).chain(oauth).collect()
        }
        Access::OAuth => vec![Who::OAuth],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::route;

    const READ: Access = Access::Scoped {
        scope: Scope::MailRead,
        oauth: false,
    };
    const READ_OAUTH: Access = Access::Scoped {
        scope: Scope::MailRead,
        oauth: true,
    };
    const SEND: Access = Access::Scoped {
        scope: Scope::MailSend,
        oauth: false,
    };

    #[test]
    fn a_route_that_lets_somebody_in_who_was_not_let_in_before_is_weaker() {
        let all = [
            Access::Public,
            Access::Session,
            READ,
            READ_OAUTH,
            SEND,
            Access::OAuth,
        ];
        for one in all {
            assert!(!weaker(one, one), "{one}");
            assert!(!weaker(Access::Public, one), "{one}");
        }
        for (old, new) in [
            (Access::Session, Access::Public),
            (Access::Session, READ),
            (Access::Session, Access::OAuth),
            (READ, READ_OAUTH),
            (READ, SEND),
            (READ, Access::OAuth),
            (Access::OAuth, Access::Session),
            (Access::OAuth, READ_OAUTH),
        ] {
            assert!(weaker(old, new), "{old} {new}");
        }
        for (old, new) in [
            (READ_OAUTH, READ),
            (READ_OAUTH, Access::OAuth),
            (READ, Access::Session),
        ] {
            assert!(!weaker(old, new), "{old} {new}");
        }
    }

    #[test]
    fn neither_an_interface_of_a_later_version_nor_what_every_module_has_is_a_new_import() {
        let old = ["latchmail:host/mailbox@1.0.0".to_owned()];
        let new = [
            "latchmail:host/mailbox@1.1.0".to_owned(),
            "latchmail:host/outbox@1.1.0".to_owned(),
            "latchmail:host/log@1.1.0".to_owned(),
            "wasi:random/random@0.2.6".to_owned(),
        ];
        assert_eq!(
            imports(&old, &new),
            ["it imports latchmail:host/outbox@1.1.0"]
        );
    }

    #[test]
    fn a_path_whose_segments_have_other_names_is_no_new_route() {
        let one = |path| [route("GET", path)];
        assert!(routes(&one("/a/{b}"), &one("/a/{c}")).is_empty());
        assert_eq!(
            routes(&one("/a/{b}"), &one("/a/b")),
            ["it has the route GET /a/b"]
        );
    }
}
