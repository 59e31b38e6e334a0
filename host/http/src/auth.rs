//! The operations under `/api/v1/auth`. Each file contains the route, request, response, API
//! description and handler of one operation. The rules of sign-in and registration are in
//! [`latchmail_accounts::auth`].
//!
//! A handler is an `async fn(&App, &Request) -> Result<Response, Rejection>`. [`AuthDescription`]
//! combines the API descriptions of the
//! operations. The host adds the security, the schema `Error`, and the errors of the request
//! pipeline (401, 413, 429, 500) to the API description.

mod auth_tokens;
pub mod domains;
pub mod login;
pub mod logout;
pub mod refresh;
mod refresh_body;
pub mod register;
mod routes;
mod secret;
pub mod username_available;

pub use auth_tokens::{AuthTokens, AuthUser};
pub use refresh_body::RefreshBody;
pub use routes::{AuthDescription, route_group};
