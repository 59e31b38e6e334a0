//! The access rules of routes (specification, sections 5 and 7). The pipeline enforces them, and the API description contains them.

use http::{HeaderValue, header};
use latchmail_core::caller::{Audience, Caller, Credential, SESSION_ONLY, Scope, missing};
use latchmail_core::error::Failure;
use latchmail_runtime::modules::Access;

use crate::rejection::Rejection;

/// The error text for an account that is not an administrator's.
const ADMINS_ONLY: &str = "This endpoint is only available to administrators";

/// Checks that `caller` is authorized to use a route.
///
/// # Errors
/// Returns 403 with the specification's text, or 401 if the route requires an OAuth token and the credential is another one.
pub fn admit(access: Access, caller: &Caller) -> Result<(), Rejection> {
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
        (Access::Admin, Credential::Session { .. }) => Err(Failure::forbidden(ADMINS_ONLY).into()),
        (Access::Session | Access::Admin, _) => Err(Failure::forbidden(SESSION_ONLY).into()),
        (Access::Scoped { scope, .. }, Credential::ApiToken { .. })
        | (Access::Scoped { scope, oauth: true }, Credential::OAuth { .. })
            if caller.holds(scope) =>
        {
            Ok(())
        }
        (Access::Scoped { scope, .. }, _) => Err(insufficient(scope)),
        (Access::OAuth, _) => Err(unauthorized()),
    }
}

/// Returns `true` if the route accepts OAuth access tokens: its declaration allows them, and its scope is one that OAuth tokens can have. `send` states whether
/// the operator allows agents to send mail.
#[must_use]
pub fn takes_oauth(access: Access, send: bool) -> bool {
    match access {
        Access::Scoped { scope, oauth } => oauth && scope.allowed_for_oauth(send),
        Access::OAuth => true,
        Access::Public | Access::Session | Access::Admin => false,
    }
}

/// Returns the scope that an API token needs, or `None` if the route does not accept API tokens.
#[must_use]
pub fn scope(access: Access) -> Option<Scope> {
    match access {
        Access::Scoped { scope, .. } => Some(scope),
        Access::Public | Access::Session | Access::Admin | Access::OAuth => None,
    }
}

/// Returns `true` if a route accepts the parameter `mailbox`, which selects a shared mailbox. Only the routes of mail and aliases do.
#[must_use]
pub fn takes_mailbox(access: Access) -> bool {
    scope(access).is_some_and(Scope::allowed_in_shared_mailbox)
}

/// Checks that `caller` is authorized to select a shared mailbox. Web sessions are, tokens are not.
///
/// # Errors
/// Returns 403 with the specification's text.
pub fn may_enter(caller: &Caller) -> Result<(), Rejection> {
    match caller.credential {
        Credential::Session { .. } => Ok(()),
        Credential::ApiToken { .. } | Credential::OAuth { .. } => {
            Err(Failure::forbidden(SESSION_ONLY).into())
        }
    }
}

/// Returns a 403 error that names the missing scope in the body and in the challenge (RFC 6750, section 3.1).
fn insufficient(scope: Scope) -> Rejection {
    let failure = Rejection::from(Failure::forbidden(missing(scope)));
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
    match HeaderValue::try_from(challenge) {
        Ok(challenge) => failure.with(header::WWW_AUTHENTICATE, challenge),
        Err(error) => failure.because(error),
    }
}

/// Returns the 401 error of the agent endpoint.
#[must_use]
pub fn unauthorized() -> Rejection {
    Failure::unauthorized("Missing or invalid Authorization header").into()
}

#[cfg(test)]
mod tests {
    use latchmail_core::caller::MailCredential;

    use super::*;

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

    fn caller(credential: Credential) -> Caller {
        Caller {
            account: "a".into(),
            address: "a@example.org".into(),
            admin: false,
            credential,
            mail: MailCredential::app_password(
                "c".into(),
                "a@example.org".into(),
                String::new().into(),
            ),
            shared: None,
        }
    }

    fn refusal(access: Access, credential: &Credential) -> Option<(u16, String)> {
        admit(access, &caller(credential.clone()))
            .err()
            .map(|failure| (failure.status.as_u16(), failure.text.into_owned()))
    }

    #[test]
    fn a_session_reaches_what_its_owner_may_reach() {
        let session = Credential::Session { sid: "s".into() };
        for access in [Access::Session, READ, SEND, ALIASES] {
            assert_eq!(refusal(access, &session), None);
        }
        assert_eq!(refusal(Access::OAuth, &session).unwrap().0, 401);
    }

    #[test]
    fn a_token_reaches_what_its_scopes_open() {
        let token = Credential::ApiToken {
            id: "t".into(),
            scopes: vec![Scope::MailRead],
        };
        assert_eq!(refusal(READ, &token), None);
        let missing = "This credential is missing the \"mail:send\" scope";
        assert_eq!(refusal(SEND, &token).unwrap(), (403, missing.into()));
        let session_only =
            "This endpoint is only available to a signed-in session, not to API or OAuth tokens";
        assert_eq!(
            refusal(Access::Session, &token).unwrap(),
            (403, session_only.into())
        );
    }

    #[test]
    fn no_declaration_widens_an_oauth_token() {
        let held = |audience, scopes| Credential::OAuth {
            id: "g".into(),
            audience,
            scopes,
        };
        let usual = vec![Scope::MailRead, Scope::MailWrite, Scope::AliasesRead];
        let grant = held(Audience::Service, usual.clone());
        assert_eq!(refusal(READ, &grant), None);
        assert_eq!(refusal(Access::OAuth, &grant), None);
        let missing = |scope| {
            (
                403,
                format!("This credential is missing the \"{scope}\" scope"),
            )
        };
        assert_eq!(refusal(SEND, &grant).unwrap(), missing("mail:send"));
        assert_eq!(refusal(ALIASES, &grant).unwrap(), missing("aliases:read"));
        assert_eq!(refusal(Access::Session, &grant).unwrap().0, 403);
        let sends = held(Audience::Service, vec![Scope::MailSend]);
        assert_eq!(refusal(SEND, &sends), None);
        // A token for the API only is accepted there, but not at the agent endpoint.
        let api = held(Audience::Api, usual);
        assert_eq!(refusal(READ, &api), None);
        assert_eq!(refusal(Access::OAuth, &api).unwrap().0, 401);
    }

    #[test]
    fn at_the_agent_endpoint_alone_a_token_may_make_an_alias() {
        let grant = caller(Credential::OAuth {
            id: "g".into(),
            audience: Audience::Service,
            scopes: vec![Scope::AliasesRead],
        });
        assert!(!grant.holds(Scope::AliasesWrite));
        assert!(grant.at_agent_endpoint().holds(Scope::AliasesWrite));
        let narrow = caller(Credential::OAuth {
            id: "g".into(),
            audience: Audience::Service,
            scopes: vec![Scope::MailRead],
        });
        assert!(!narrow.at_agent_endpoint().holds(Scope::AliasesWrite));
        let session = caller(Credential::Session { sid: "s".into() });
        let same = session.clone().at_agent_endpoint();
        assert_eq!(same.credential, session.credential);
    }
}
