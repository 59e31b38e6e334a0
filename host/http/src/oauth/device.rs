//! `POST /auth/device` (RFC 8628): starts the sign-in for a device without a browser. The page on
//! which the user enters the code of the device is in another crate.

use http::StatusCode;
use latchmail_oauth::device::DeviceResponse;
use latchmail_oauth::error::Refusal;
use latchmail_oauth::parameters::Parameters;
use utoipa::ToSchema;

use super::protocol;
use super::token::basic_credentials;
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/auth/device";

/// A device authorization request (RFC 8628, section 3.1). Other fields are ignored.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct DeviceForm {
    /// The client's id. Required unless the client authenticates with the Authorization header.
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// The client's secret, if the client has one and does not send it in the Authorization header.
    #[schema(nullable = false, format = "password")]
    client_secret: Option<String>,
    /// The resource for which the client requests tokens (RFC 8707): a URL of this service.
    #[schema(nullable = false)]
    resource: Option<String>,
    /// The scopes that the client requests, separated by spaces. The default is all scopes that the
    /// service can grant to the client.
    #[schema(nullable = false)]
    scope: Option<String>,
}

/// Start a device authorization
///
/// RFC 8628. Returns `device_code`, `user_code` and the URL of the page on which the user enters
/// the code. The codes expire after ten minutes. The client must poll the token endpoint every
/// `interval` seconds.
#[utoipa::path(
    post,
    path = "/auth/device",
    operation_id = "beginDevice",
    tag = "Authorization",
    request_body(content = DeviceForm, content_type = "application/x-www-form-urlencoded", description = "The client, and the resource that the tokens are for"),
    responses(
        (
            status = 200,
            description = "The codes and the URL of the page",
            body = DeviceResponse,
            links(
                ("showDevice" = (operation_id = "showDevice", parameters(("user_code" = "$response.body#/user_code"))))
            )
        ),
        (status = 400, description = "`invalid_request`, `invalid_target` or `invalid_scope`", body = Refusal),
        (status = 401, description = "`invalid_client`", body = Refusal, headers(("WWW-Authenticate" = String, description = "`Basic`, if the client sent an Authorization header"))),
    )
)]
pub(super) async fn begin_device(app: &App, request: &Request) -> Result<Response, Rejection> {
    let basic = basic_credentials(&request.headers);
    let result = async {
        let client = basic.as_ref().map_err(Clone::clone)?;
        let parameters = Parameters::new(protocol::form(request)?);
        let client = client.as_ref().map(|(id, secret)| (&**id, &**secret));
        app.oauth
            .begin_device(&parameters, client, request.client)
            .await
    };
    match result.await {
        Ok(device) => message::json(StatusCode::OK, &device),
        Err(error) => protocol::error_response(error, !matches!(basic, Ok(None))),
    }
}
