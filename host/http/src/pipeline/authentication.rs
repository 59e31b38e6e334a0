//! Counts a request towards its rate limits, verifies its credential, and checks that the route
//! accepts the caller.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use latchmail_accounts::auth::{bearer_credential, has_basic_credential};
use latchmail_core::caller::Caller;
use latchmail_core::error::{Failure, Kind};
use latchmail_core::limits::{Bucket, Key};
use latchmail_runtime::modules::{Access, Route};

use super::progress::Progress;
use crate::access;
use crate::rejection::Rejection;
use crate::router::RouteEntry;
use crate::state::State;

/// A header that browsers add to every request (Fetch Metadata Request Headers).
const FETCH_MODE: &str = "sec-fetch-mode";

/// Counts the request, and returns the caller if the route accepts the credential.
///
/// Every request is counted before the database lookup of its credential. The form of some
/// credentials proves that the service issued the credential. A request with such a credential
/// counts towards the rate limit of the credential. Any other request counts towards the rate limit
/// of the client. So invalid and forged credentials cannot cause unlimited lookups.
pub(super) async fn authenticate<S: State>(
    state: &S,
    entry: &RouteEntry<S>,
    headers: &HeaderMap,
    client: IpAddr,
    progress: &mut Progress,
) -> Result<Caller, Rejection> {
    let access = entry.route.access;
    let limits = &state.http().limits;
    let credential = parse(state, access, headers, client).await;
    let proven_key = match &credential {
        Ok((credential, _)) if access == Access::OAuth => state.agent_key(credential),
        Ok((_, key)) => key.clone(),
        Err(_) => None,
    };
    match (&proven_key, entry.bucket) {
        (Some(key), Some(bucket)) => progress.count(limits, bucket, key).await?,
        (Some(_), None) => {}
        (None, _) => {
            let key = Key::client(client);
            progress.count(limits, Bucket::Unproven, &key).await?;
        }
    }
    let caller = match credential {
        Ok((credential, _)) => state.authenticate(credential).await,
        Err(failure) => Err(failure),
    };
    let authorized = match caller {
        Ok(caller) => {
            progress.account = Some(caller.account.clone());
            state.used_from(&caller, client);
            authorize(state, &entry.route, caller).await
        }
        Err(failure) if access == Access::OAuth && failure.kind == Kind::Unauthorized => {
            Err(match failure.cause {
                Some(cause) => access::unauthorized().because(cause),
                None => access::unauthorized(),
            })
        }
        Err(failure) => Err(failure.into()),
    };
    let caller =
        authorized.map_err(|rejection| with_challenge(state, access, headers, rejection))?;
    if let (None, Some(bucket)) = (proven_key, entry.bucket) {
        let key = Key::caller(bucket, &caller);
        progress.count(limits, bucket, &key).await?;
    }
    Ok(caller)
}

/// Parses the credential of a request. A request with HTTP Basic authentication has a credential
/// only on a route that accepts app passwords.
async fn parse<S: State>(
    state: &S,
    access: Access,
    headers: &HeaderMap,
    client: IpAddr,
) -> Result<(S::Credential, Option<Key>), Failure> {
    if access::takes_app_password(access) && has_basic_credential(headers) {
        return state.parse_basic_credential(headers);
    }
    state.parse_credential(headers, client).await
}

/// Verifies the credential of a request a second time, without counting the request a second time.
pub(super) async fn reverify<S: State>(
    state: &S,
    route: &Route,
    headers: &HeaderMap,
    client: IpAddr,
) -> Result<Caller, Rejection> {
    let caller = match parse(state, route.access, headers, client).await {
        Ok((credential, _)) => state.authenticate(credential).await,
        Err(failure) => Err(failure),
    };
    let authorized = match caller {
        Ok(caller) => authorize(state, route, caller).await,
        Err(failure) => Err(failure.into()),
    };
    authorized.map_err(|rejection| with_challenge(state, route.access, headers, rejection))
}

/// Checks that the route accepts the caller. Returns the caller with the permissions that apply to
/// the route.
async fn authorize<S: State>(
    state: &S,
    route: &Route,
    caller: Caller,
) -> Result<Caller, Rejection> {
    let caller = match route.access {
        Access::OAuth => caller.at_agent_endpoint(state.http().agents_send),
        _ => caller.outside_agent_endpoint(),
    };
    access::authorize(route.access, &caller)?;
    if route.access == Access::Admin {
        let is_change = !route.method.is_safe();
        state.check_administrator(&caller, is_change).await?;
    }
    Ok(caller)
}

/// Switches the caller to the mailbox that the request selects. Returns the unchanged caller if
/// `mailbox` is `None` or the caller's own mailbox.
pub(super) async fn select_mailbox<S: State>(
    state: &S,
    caller: Caller,
    mailbox: Option<&str>,
) -> Result<Caller, Rejection> {
    let Some(mailbox) = mailbox else {
        return Ok(caller);
    };
    access::authorize_mailbox(&caller)?;
    if caller.account == mailbox {
        return Ok(caller);
    }
    Ok(state.switch_mailbox(caller, mailbox).await?)
}

/// Adds the header `WWW-Authenticate` to a 401 error without this header (RFC 9110, section
/// 11.6.1). For the agent endpoint, RFC 9728, section 5.1, defines the value of the header.
fn with_challenge<S: State>(
    state: &S,
    access: Access,
    headers: &HeaderMap,
    rejection: Rejection,
) -> Rejection {
    let has_challenge = rejection
        .headers
        .iter()
        .any(|(name, _)| name == header::WWW_AUTHENTICATE);
    if rejection.status != StatusCode::UNAUTHORIZED || has_challenge {
        return rejection;
    }
    let http = state.http();
    // RFC 6750, section 3.1: if the request has no token, the header contains no error code.
    let challenge = match access {
        Access::OAuth if bearer_credential(headers).is_ok() => http.agent_invalid_token.clone(),
        Access::OAuth => http.agent_challenge.clone(),
        // Browsers ask for a password because of the scheme `Basic`, and then send the password
        // with every request, also with requests that pages of other sites cause.
        _ if access::takes_app_password(access) && !headers.contains_key(FETCH_MODE) => {
            HeaderValue::from_static("Basic realm=\"Latchmail\", charset=\"UTF-8\", Bearer")
        }
        _ => HeaderValue::from_static("Bearer"),
    };
    rejection.with(header::WWW_AUTHENTICATE, challenge)
}
