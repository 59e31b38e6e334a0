//! The endpoints and pages of the authorization server, and the metadata with which agents find
//! this server. The rules of the protocols are in
//! [`latchmail_oauth`].
//!
//! The endpoints return JSON. In an error response, the member `error` is a code of the protocol
//! (RFC 6749, section 5.2). The pages are HTML. By default, the authorization server uses the main
//! listener of the service. If `oauth.listen` is set, the authorization server has a separate
//! listener.

mod device;
mod form_state;
mod listener;
mod metadata;
mod page;
mod protocol;
mod register;
mod resource;
mod routes;
mod sign_in;
mod single_sign_on;
mod state;
mod token;

pub(crate) use protocol::form;
pub(crate) use sign_in::{
    Credentials, begin_attempt, needs_code, read_credentials, status_and_message,
};

pub use listener::{AuthorizationServer, listen};
pub(crate) use page::{error_page, page_without_form};
pub use routes::{resource_route_group, route_group};
pub use single_sign_on::{callback_route_group, route_group as single_sign_on_route_group};
pub use state::OAuthState;
