//! The access rules of routes. A rule determines which credentials a route accepts. The pipeline
//! enforces the rules, and the API description contains them.

use http::{HeaderValue, header};
use latchmail_core::caller::{
    Audience, Caller, Credential, OperatorScope, SESSION_ONLY, Scope, missing, missing_scope,
};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_runtime::modules::{Accepts, Access, Requirement};

use crate::rejection::Rejection;

const ADMINS_ONLY: &str = "This endpoint is only available to administrators";
/// The error text for a kind of credential that the route does not accept.
const NOT_ACCEPTED: &str = "This endpoint does not accept this kind of credential";

/// Checks that `caller` is authorized to use a route.
///
/// # Errors
/// Returns 403 if the credential or the account of `caller` lacks a permission. Returns 401 if the
/// route requires an OAuth token for the agent endpoint and `caller` has another credential.
pub fn authorize(access: Access, caller: &Caller) -> Result<(), Rejection> {
    match (access, &caller.credential) {
        (Access::Public, _)
        | (Access::Session | Access::Scoped { .. }, Credential::Session { .. })
        | (
            Access::OAuth,
            Credential::OAuth {
                audience: Audience::Service,
                ..
            },
        ) => Ok(()),
        (Access::Admin, Credential::Session { .. }) if caller.admin => Ok(()),
        (Access::Admin, Credential::Session { .. }) => {
            Err(Failure::forbidden(codes::ADMINISTRATOR_REQUIRED, ADMINS_ONLY).into())
        }
        (Access::Session | Access::Admin, _) => {
            Err(Failure::forbidden(codes::SESSION_REQUIRED, SESSION_ONLY).into())
        }
        (Access::Scoped { scope, .. }, Credential::ApiToken { .. })
        | (Access::Scoped { scope, oauth: true }, Credential::OAuth { .. })
            if caller.holds(scope) =>
        {
            Ok(())
        }
        (Access::Scoped { scope, .. }, credential) => Err(insufficient_scope(scope, credential)),
        (Access::Operator(scope), _) if caller.operates(scope) => Ok(()),
        (Access::Operator(scope), _) => Err(insufficient_operator_scope(scope)),
        (Access::OAuth, _) => Err(unauthorized()),
        (Access::Any(accepts), _) => match requirement(accepts, &caller.credential) {
            Requirement::AnyScope => Ok(()),
            Requirement::Scope(scope) if caller.holds(scope) => Ok(()),
            Requirement::Scope(scope) => Err(insufficient_scope(scope, &caller.credential)),
            Requirement::Refused => {
                Err(Failure::forbidden(codes::CREDENTIAL_NOT_ACCEPTED, NOT_ACCEPTED).into())
            }
        },
    }
}

/// Returns the requirement of a route for a credential.
fn requirement(accepts: Accepts, credential: &Credential) -> Requirement {
    match credential {
        Credential::Session { .. } if accepts.session => Requirement::AnyScope,
        // A handler of a module sends no requests, and an operator token has no mailbox.
        Credential::Session { .. } | Credential::Handler { .. } | Credential::Operator { .. } => {
            Requirement::Refused
        }
        Credential::ApiToken { .. } => accepts.api_token,
        Credential::OAuth { .. } => accepts.oauth,
        Credential::AppPassword { .. } => accepts.app_password,
    }
}

/// Returns `true` if a route accepts app passwords, with HTTP Basic authentication.
#[must_use]
pub fn takes_app_password(access: Access) -> bool {
    matches!(access, Access::Any(accepts) if accepts.app_password != Requirement::Refused)
}

/// Returns `true` if a route accepts OAuth access tokens. Returns `false` if the scope of the route
/// is not available to OAuth tokens. `agents_send` states whether the operator allows agents to
/// send mail.
#[must_use]
pub fn takes_oauth(access: Access, agents_send: bool) -> bool {
    match access {
        Access::Scoped { scope, oauth } => oauth && is_open_to_oauth(scope, agents_send),
        Access::Any(accepts) => match accepts.oauth {
            Requirement::Refused => false,
            Requirement::AnyScope => true,
            Requirement::Scope(scope) => is_open_to_oauth(scope, agents_send),
        },
        Access::OAuth => true,
        Access::Public | Access::Session | Access::Admin | Access::Operator(_) => false,
    }
}

fn is_open_to_oauth(scope: Scope, agents_send: bool) -> bool {
    scope != Scope::AliasesWrite && scope.allowed_for_oauth(agents_send)
}

/// Returns the scope that an API token needs for a route. Returns `None` if the route does not
/// accept API tokens, or if it accepts API tokens with any scopes.
#[must_use]
pub fn scope(access: Access) -> Option<Scope> {
    match access {
        Access::Scoped { scope, .. } => Some(scope),
        Access::Any(accepts) => accepts.api_token.scope(),
        Access::Public | Access::Session | Access::Admin | Access::OAuth | Access::Operator(_) => {
            None
        }
    }
}

/// Returns `true` if a route accepts the parameter `mailbox`, which selects a shared mailbox. Only
/// mail and alias routes accept this parameter.
#[must_use]
pub fn takes_mailbox(access: Access) -> bool {
    scope(access).is_some_and(Scope::allowed_in_shared_mailbox)
}

/// Checks that `caller` is authorized to select a shared mailbox. Only a caller with a web session
/// is authorized.
///
/// # Errors
/// Returns 403 if `caller` has no web session.
pub fn authorize_mailbox(caller: &Caller) -> Result<(), Rejection> {
    match caller.credential {
        Credential::Session { .. } => Ok(()),
        Credential::ApiToken { .. }
        | Credential::OAuth { .. }
        | Credential::AppPassword { .. }
        | Credential::Handler { .. }
        | Credential::Operator { .. } => {
            Err(Failure::forbidden(codes::SESSION_REQUIRED, SESSION_ONLY).into())
        }
    }
}

/// Returns a 403 error. The body and the header `WWW-Authenticate` (RFC 6750, section 3.1) contain
/// the missing scope. The header is omitted for HTTP Basic authentication, because a bearer token
/// is no replacement for an app password.
fn insufficient_scope(scope: Scope, credential: &Credential) -> Rejection {
    let rejection = Rejection::from(Failure::forbidden(codes::MISSING_SCOPE, missing(scope)));
    if matches!(credential, Credential::AppPassword { .. }) {
        return rejection;
    }
    with_scope_challenge(rejection, scope.name())
}

/// Returns a 403 error for an operator token without a scope.
fn insufficient_operator_scope(scope: OperatorScope) -> Rejection {
    let failure = Failure::forbidden(codes::MISSING_SCOPE, missing_scope(scope.name()));
    with_scope_challenge(failure.into(), scope.name())
}

fn with_scope_challenge(rejection: Rejection, scope: &str) -> Rejection {
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
    match HeaderValue::try_from(challenge) {
        Ok(challenge) => rejection.with(header::WWW_AUTHENTICATE, challenge),
        Err(error) => rejection.because(error),
    }
}

/// Returns the 401 error of the agent endpoint. The calling function must add the header
/// `WWW-Authenticate`.
#[must_use]
pub fn unauthorized() -> Rejection {
    Failure::unauthorized(
        codes::INVALID_AUTHORIZATION_HEADER,
        "Missing or invalid Authorization header",
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::caller;

    const READ: Access = Access::Scoped {
        scope: Scope::MailRead,
        oauth: true,
    };
    const SEND: Access = Access::Scoped {
        scope: Scope::MailSend,
        oauth: true,
    };
    const ALIASES: Access = Access::Scoped {
        scope: Scope::AliasesRead,
        oauth: false,
    };

    fn rejected(access: Access, credential: &Credential) -> Option<(u16, String)> {
        authorize(access, &caller(credential.clone()))
            .err()
            .map(|rejection| (rejection.status.as_u16(), rejection.text.into_owned()))
    }

    #[test]
    fn a_web_session_is_authorized_for_session_and_scoped_routes() {
        let session = Credential::Session { sid: "s".into() };
        for access in [Access::Session, READ, SEND, ALIASES] {
            assert_eq!(rejected(access, &session), None);
        }
        assert_eq!(rejected(Access::OAuth, &session).unwrap().0, 401);
    }

    #[test]
    fn an_api_token_is_authorized_for_its_scopes() {
        let token = Credential::ApiToken {
            id: "t".into(),
            scopes: vec![Scope::MailRead],
        };
        assert_eq!(rejected(READ, &token), None);
        let missing = "This credential is missing the \"mail:send\" scope";
        assert_eq!(rejected(SEND, &token).unwrap(), (403, missing.into()));
        let session_only =
            "This endpoint is only available to a signed-in session, not to API or OAuth tokens";
        assert_eq!(
            rejected(Access::Session, &token).unwrap(),
            (403, session_only.into())
        );
    }

    #[test]
    fn an_oauth_token_is_authorized_for_its_scopes_and_audience() {
        let token = |audience, scopes| Credential::OAuth {
            id: "g".into(),
            audience,
            scopes,
        };
        let usual = vec![Scope::MailRead, Scope::MailWrite, Scope::AliasesRead];
        let grant = token(Audience::Service, usual.clone());
        assert_eq!(rejected(READ, &grant), None);
        assert_eq!(rejected(Access::OAuth, &grant), None);
        let missing = |scope| {
            (
                403,
                format!("This credential is missing the \"{scope}\" scope"),
            )
        };
        assert_eq!(rejected(SEND, &grant).unwrap(), missing("mail:send"));
        assert_eq!(rejected(ALIASES, &grant).unwrap(), missing("aliases:read"));
        assert_eq!(rejected(Access::Session, &grant).unwrap().0, 403);
        let sending = token(Audience::Service, vec![Scope::MailSend]);
        assert_eq!(rejected(SEND, &sending), None);
        // The agent endpoint rejects a token whose audience is only the API.
        let api = token(Audience::Api, usual);
        assert_eq!(rejected(READ, &api), None);
        assert_eq!(rejected(Access::OAuth, &api).unwrap().0, 401);
    }

    #[test]
    fn an_operator_token_is_authorized_for_its_scopes_and_for_no_mailbox() {
        let token = Credential::Operator {
            id: "o".into(),
            scopes: vec![OperatorScope::AccountsRead],
        };
        let route = Access::Operator(OperatorScope::AccountsRead);
        assert_eq!(rejected(route, &token), None);
        let other = Access::Operator(OperatorScope::Scim);
        let text = "This credential is missing the \"scim\" scope";
        assert_eq!(rejected(other, &token).unwrap(), (403, text.into()));
        for access in [Access::Session, Access::Admin, READ, SEND, ALIASES] {
            assert_eq!(rejected(access, &token).unwrap().0, 403);
        }
        assert_eq!(rejected(Access::OAuth, &token).unwrap().0, 401);
        let session = Credential::Session { sid: "s".into() };
        assert_eq!(rejected(route, &session).unwrap().0, 403);
        let operator = caller(token);
        assert!(Scope::ALL.iter().all(|scope| !operator.holds(*scope)));
    }

    #[test]
    fn an_oauth_token_can_create_aliases_only_at_the_agent_endpoint() {
        let grant = caller(Credential::OAuth {
            id: "g".into(),
            audience: Audience::Service,
            scopes: vec![Scope::AliasesRead, Scope::AliasesWrite],
        });
        let outside = grant.outside_agent_endpoint();
        assert!(outside.holds(Scope::AliasesRead));
        assert!(!outside.holds(Scope::AliasesWrite));
        let token = caller(Credential::ApiToken {
            id: "t".into(),
            scopes: vec![Scope::AliasesWrite],
        });
        assert!(token.outside_agent_endpoint().holds(Scope::AliasesWrite));
        let route = |scope| Access::Scoped { scope, oauth: true };
        assert!(takes_oauth(route(Scope::AliasesRead), false));
        assert!(!takes_oauth(route(Scope::AliasesWrite), false));
    }

    #[test]
    fn only_a_bearer_token_gets_a_bearer_challenge() {
        let route = Access::Any(Accepts {
            session: true,
            api_token: Requirement::Scope(Scope::AliasesRead),
            oauth: Requirement::Refused,
            app_password: Requirement::Scope(Scope::AliasesRead),
        });
        let token = Credential::ApiToken {
            id: "t".into(),
            scopes: Vec::new(),
        };
        let app_password = Credential::AppPassword { id: "a".into() };
        for (credential, challenges) in [(token, 1), (app_password, 0)] {
            let rejected = authorize(route, &caller(credential)).unwrap_err();
            assert_eq!(
                (rejected.status.as_u16(), rejected.headers.len()),
                (403, challenges)
            );
        }
    }

    #[test]
    fn a_route_can_accept_any_combination_of_credentials() {
        let any = Access::Any(Accepts {
            session: true,
            api_token: Requirement::AnyScope,
            oauth: Requirement::Scope(Scope::MailRead),
            app_password: Requirement::Refused,
        });
        let oauth = |scopes| Credential::OAuth {
            id: "g".into(),
            audience: Audience::Api,
            scopes,
        };
        let token = Credential::ApiToken {
            id: "t".into(),
            scopes: Vec::new(),
        };
        assert_eq!(
            rejected(any, &Credential::Session { sid: "s".into() }),
            None
        );
        assert_eq!(rejected(any, &token), None);
        assert_eq!(rejected(any, &oauth(vec![Scope::MailRead])), None);
        let missing = rejected(any, &oauth(vec![Scope::MailWrite])).unwrap();
        assert_eq!(
            missing.1,
            "This credential is missing the \"mail:read\" scope"
        );
        let app_password = Credential::AppPassword { id: "p".into() };
        assert_eq!(
            rejected(any, &app_password).unwrap(),
            (403, NOT_ACCEPTED.into())
        );
        assert!(!takes_app_password(any) && takes_oauth(any, false));

        let mail_clients = Access::Any(Accepts {
            session: false,
            api_token: Requirement::Refused,
            oauth: Requirement::Refused,
            app_password: Requirement::Scope(Scope::MailSend),
        });
        assert_eq!(rejected(mail_clients, &app_password), None);
        assert_eq!(rejected(mail_clients, &token).unwrap().0, 403);
        assert!(takes_app_password(mail_clients) && !takes_oauth(mail_clients, true));
        let caller = caller(app_password);
        let held: Vec<Scope> = Scope::ALL
            .into_iter()
            .filter(|one| caller.holds(*one))
            .collect();
        assert_eq!(held, [Scope::MailRead, Scope::MailSend, Scope::MailWrite]);
    }
}
