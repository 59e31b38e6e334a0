//! Requests with a ticket in the query in place of a credential. A ticket is valid once, for one
//! method and path. The request is then processed as a request with the credential of the caller
//! who created the ticket.

use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderValue, header};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::limits::{Bucket, Key};
use latchmail_runtime::modules::Access;

use super::progress::Progress;
use crate::query;
use crate::rejection::Rejection;
use crate::state::State;

/// The query parameter with the ticket.
const PARAMETER: &str = "ticket";

/// Returns the query of a request. The query has no ticket if `redeem` replaced it.
pub(super) fn query(parts: &Parts, is_redeemed: bool) -> Result<Vec<(String, String)>, Rejection> {
    let mut query = query::parse(parts.uri.query().unwrap_or_default())?;
    if is_redeemed {
        query::take(&mut query, PARAMETER)?;
    }
    Ok(query)
}

/// Replaces the ticket of a request by the header `Authorization`. Returns `false`, and changes
/// nothing, if the request has no ticket or has this header, or if the route has no scope.
///
/// The request is counted before the database lookup of its ticket.
pub(super) async fn redeem<S: State>(
    state: &S,
    access: Access,
    parts: &mut Parts,
    client: IpAddr,
    progress: &mut Progress,
) -> Result<bool, Rejection> {
    let takes_ticket = matches!(access, Access::Scoped { .. });
    if !takes_ticket || parts.headers.contains_key(header::AUTHORIZATION) {
        return Ok(false);
    }
    let mut query = query::parse(parts.uri.query().unwrap_or_default())?;
    let Some(ticket) = query::take(&mut query, PARAMETER)? else {
        return Ok(false);
    };
    let limits = &state.http().limits;
    progress
        .count(limits, Bucket::Unproven, &Key::client(client))
        .await?;
    let redeemed = state.redeem_ticket(parts.method.as_str(), parts.uri.path(), &ticket);
    let Some(authorization) = redeemed.await? else {
        let text = "This link is invalid, expired or was used";
        let rejection = Rejection::from(Failure::unauthorized(codes::INVALID_TICKET, text));
        return Err(rejection.with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
    };
    parts.headers.insert(header::AUTHORIZATION, authorization);
    Ok(true)
}
