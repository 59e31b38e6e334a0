//! The endpoints of the authorization server and of single sign-on, and the metadata with which
//! agents find the authorization server. The rules of the protocols are in [`latchmail_oauth`]. The
//! pages are in another crate.
//!
//! The endpoints return JSON. In an error response, the member `error` is a code of the protocol
//! (RFC 6749, section 5.2). By default, the authorization server uses the main listener of the
//! service. If `oauth.listen` is set, the authorization server has a separate listener.

mod device;
mod metadata;
mod protocol;
mod provider;
mod register;
mod resource;
mod revoke;
mod routes;
mod single_sign_on;
mod state;
mod token;

pub use metadata::AUTHORIZATION_PATH;
pub use protocol::form;
pub use provider::{provider, unavailable};
pub use routes::{is_on_main_listener, resource_route_group, route_group};
pub use single_sign_on::route_group as single_sign_on_route_group;
pub use state::OAuthState;
