//! Finds the properties of a new component that need the operator's consent. A new module needs
//! consent to its public routes and to its handlers. A new version needs consent to the replacement
//! of the active version, and to permissions that the replaced version does not have. Each
//! permission is described by a phrase that follows the name of the module.

use std::collections::BTreeSet;

use latchmail_core::caller::Scope;

use crate::modules::{Access, Manifest, Module, Requirement, Route, Subscriptions, is_granted};

/// Returns one phrase for each new import, for each new route, for each route that accepts
/// additional callers, and for each new subscription of handlers.
pub(super) fn additions(old: &Manifest, old_imports: &[String], new: &Module) -> Vec<String> {
    let mut phrases = imports(old_imports, new.imports());
    phrases.extend(routes(&old.routes, &new.manifest().routes));
    let handlers = new.manifest().handlers.as_ref();
    phrases.extend(handler_additions(old.handlers.as_ref(), handlers));
    phrases
}

/// Returns the phrase for the version that a new version replaces.
pub(super) fn replacement(old: &Module) -> String {
    let digest = old.digest();
    let digest = digest.get(..12).unwrap_or(digest);
    format!(
        "it replaces version {} ({digest}), which serves now",
        old.manifest().version
    )
}

/// Returns one phrase for each public route of a new module, and for each subscription of its
/// handlers.
pub(super) fn of_new(new: &Manifest) -> Vec<String> {
    let public = new.routes.iter().filter(|r| r.access == Access::Public);
    public
        .map(|route| format!("it has the public route {} {}", route.method, route.path))
        .chain(handler_additions(None, new.handlers.as_ref()))
        .collect()
}

/// Returns one phrase for each import, for each route and for each subscription of handlers. This
/// function is used if the previous version cannot be examined.
pub(super) fn everything(new: &Module) -> Vec<String> {
    let mut phrases = imports(&[], new.imports());
    phrases.extend(routes(&[], &new.manifest().routes));
    phrases.extend(handler_additions(None, new.manifest().handlers.as_ref()));
    phrases
}

/// Returns one phrase for each set of events and for each timer that `old` does not have.
fn handler_additions(old: Option<&Subscriptions>, new: Option<&Subscriptions>) -> Vec<String> {
    let Some(new) = new else {
        return Vec::new();
    };
    let (events, timers) = old
        .map(|old| (old.events.as_slice(), old.timers.as_slice()))
        .unwrap_or_default();
    let events = new.events.iter().filter(|one| !events.contains(one));
    let events = events.map(|events| format!("it acts on {events}, without a request"));
    let timers = new.timers.iter().filter(|one| !timers.contains(one));
    let timers = timers.map(|timer| format!("it acts by the timer {timer}, without a request"));
    events.chain(timers).collect()
}

/// Returns one phrase for each new import. The function ignores versions of interfaces. Interfaces
/// that every module can use need no consent.
fn imports(old: &[String], new: &[String]) -> Vec<String> {
    let known: BTreeSet<&str> = old.iter().map(|import| interface(import)).collect();
    new.iter()
        .filter(|import| !known.contains(interface(import)) && !is_granted(import, &[]))
        .map(|import| format!("it imports {import}"))
        .collect()
}

/// Returns the name of an interface without its version.
fn interface(import: &str) -> &str {
    import.split('@').next().unwrap_or(import)
}

/// Returns one phrase for each new route, and for each route that accepts additional callers.
fn routes(old: &[Route], new: &[Route]) -> Vec<String> {
    new.iter()
        .filter_map(|route| {
            let Route {
                method,
                path,
                access,
                ..
            } = route;
            let same = |old: &&Route| old.method == *method && shape(&old.path) == shape(path);
            match old.iter().find(same) {
                None => Some(format!("it has the route {method} {path}")),
                Some(old) if accepts_more(old.access, *access) => Some(format!(
                    "it opens the route {method} {path} to {access}; the previous version opened it to {}",
                    old.access
                )),
                Some(_) => None,
            }
        })
        .collect()
}

/// Returns the segments of a path. Named segments become `{}`, because the names do not affect the
/// matching of requests.
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

/// Returns whether `new` accepts callers that `old` does not accept.
fn accepts_more(old: Access, new: Access) -> bool {
    let accepted = callers(old);
    let more = || callers(new).iter().any(|caller| !accepted.contains(caller));
    old != Access::Public && (new == Access::Public || more())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallerKind {
    Administrator,
    Session,
    Token(Scope),
    /// An API token with any scopes.
    AnyToken,
    /// An OAuth token.
    OAuth,
    /// An OAuth token with this scope.
    OAuthScope(Scope),
    /// An OAuth token with any scopes.
    AnyOAuth,
    AppPassword,
}

/// Returns the kinds of callers that a route accepts. The result is empty for public routes.
fn callers(access: Access) -> Vec<CallerKind> {
    let sessions = [CallerKind::Administrator, CallerKind::Session];
    match access {
        // No module can have a route for operators.
        Access::Public | Access::Operator(_) => Vec::new(),
        Access::Admin => vec![CallerKind::Administrator],
        Access::Session => sessions.to_vec(),
        Access::Scoped { scope, oauth } => {
            let tokens = [CallerKind::Token(scope)];
            let oauth = oauth.then_some([CallerKind::OAuth, CallerKind::OAuthScope(scope)]);
            let oauth = oauth.into_iter().flatten();
            sessions.into_iter().chain(tokens).chain(oauth).collect()
        }
        Access::OAuth => vec![CallerKind::OAuth],
        Access::Any(accepts) => {
            let mut callers = Vec::new();
            if accepts.session {
                callers.extend(sessions);
            }
            match accepts.api_token {
                Requirement::Refused => {}
                Requirement::Scope(scope) => callers.push(CallerKind::Token(scope)),
                Requirement::AnyScope => {
                    callers.push(CallerKind::AnyToken);
                    callers.extend(Scope::ALL.map(CallerKind::Token));
                }
            }
            match accepts.oauth {
                Requirement::Refused => {}
                Requirement::Scope(scope) => {
                    callers.extend([CallerKind::OAuth, CallerKind::OAuthScope(scope)]);
                }
                Requirement::AnyScope => {
                    callers.extend([CallerKind::OAuth, CallerKind::AnyOAuth]);
                    callers.extend(Scope::ALL.map(CallerKind::OAuthScope));
                }
            }
            if accepts.app_password != Requirement::Refused {
                callers.push(CallerKind::AppPassword);
            }
            callers
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchmail_core::event_type::EventType;

    use super::*;
    use crate::modules::testing::route;
    use crate::modules::{Accepts, EventSubscription, Schedule, Timer};

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
    const TOKENS: Access = any(Requirement::AnyScope, Requirement::Refused);
    const MAIL_CLIENTS: Access = any(Requirement::AnyScope, Requirement::AnyScope);

    const fn any(tokens: Requirement, app_password: Requirement) -> Access {
        Access::Any(Accepts {
            session: true,
            api_token: tokens,
            oauth: tokens,
            app_password,
        })
    }

    #[test]
    fn a_route_accepts_more_callers_if_it_accepts_a_caller_that_it_rejected_before() {
        let all = [
            Access::Public,
            Access::Session,
            READ,
            READ_OAUTH,
            SEND,
            Access::OAuth,
            TOKENS,
            MAIL_CLIENTS,
        ];
        for one in all {
            assert!(!accepts_more(one, one), "{one}");
            assert!(!accepts_more(Access::Public, one), "{one}");
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
            (READ_OAUTH, TOKENS),
            (TOKENS, MAIL_CLIENTS),
        ] {
            assert!(accepts_more(old, new), "{old} {new}");
        }
        for (old, new) in [
            (READ_OAUTH, READ),
            (READ_OAUTH, Access::OAuth),
            (READ, Access::Session),
            (MAIL_CLIENTS, TOKENS),
            (TOKENS, READ_OAUTH),
        ] {
            assert!(!accepts_more(old, new), "{old} {new}");
        }
    }

    #[test]
    fn later_versions_of_interfaces_and_ungranted_interfaces_are_not_new_imports() {
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
    fn new_events_and_timers_of_handlers_are_additions() {
        let timer = |name: &str, seconds| Timer {
            name: name.into(),
            schedule: Schedule::Every(Duration::from_secs(seconds)),
        };
        let events = |types: &[EventType]| EventSubscription {
            types: types.to_vec(),
            folder_role: None,
        };
        let old = Subscriptions {
            events: vec![events(&[EventType::MessageCreated])],
            timers: vec![timer("tick", 60)],
        };
        assert!(handler_additions(Some(&old), Some(&old)).is_empty());
        assert!(handler_additions(Some(&old), None).is_empty());
        let new = Subscriptions {
            events: vec![events(&[EventType::MessageCreated]), events(&[])],
            timers: vec![timer("tick", 30)],
        };
        assert_eq!(
            handler_additions(Some(&old), Some(&new)),
            [
                "it acts on all events, without a request",
                "it acts by the timer tick every 30 s, without a request"
            ]
        );
        assert_eq!(handler_additions(None, Some(&old)).len(), 2);
    }

    #[test]
    fn a_path_with_other_segment_names_is_not_a_new_route() {
        let one = |path| [route("GET", path)];
        assert!(routes(&one("/a/{b}"), &one("/a/{c}")).is_empty());
        assert_eq!(
            routes(&one("/a/{b}"), &one("/a/b")),
            ["it has the route GET /a/b"]
        );
    }
}
