//! `POST /auth/register` (RFC 7591): a client registers itself.

use http::StatusCode;

use super::{answer, refused};
use crate::app::App;
use crate::error::Failure;
use crate::http::{Reply, Request};

pub(super) const PATH: &str = "/auth/register";

/// Register a client
///
/// RFC 7591, open to anybody. There is no secret, and a registration cannot be read back, changed or deleted; one that nobody signs in for is forgotten
/// after a day. `http://localhost` is no redirect address: use `http://127.0.0.1` or `http://[::1]`, with any port.
#[utoipa::path(
    post,
    path = "/auth/register",
    operation_id = "registerClient",
    tag = "Authorization",
    request_body(content = Value, description = "The client's metadata: `redirect_uris`, `client_name`, `grant_types`"),
    responses(
        (status = 201, description = "The registration, with its `client_id`", body = Value),
        (status = 400, description = "`invalid_redirect_uri` or `invalid_client_metadata`, with `error_description`", body = ref("#/components/schemas/Error")),
    )
)]
pub(super) async fn register_client(app: &App, request: &Request) -> Result<Reply, Failure> {
    match app.oauth.register(&request.body, request.client).await {
        Ok(registered) => answer(StatusCode::CREATED, &registered),
        Err(error) => refused(error, false),
    }
}
