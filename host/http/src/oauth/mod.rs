//! The endpoints and pages of the authorization server, and the metadata with which agents find this server (specification, sections 4.9 and 5). The rules of
//! the protocols are in [`latchmail_oauth`].
//!
//! The endpoints return JSON in the format of the protocols: the member `error` is a code (RFC 6749, section 5.2). The pages are HTML. By default, the main
//! listener of the service also serves the authorization server. If `oauth.listen` is set, the authorization server has its own listener.

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
mod state;
mod token;

pub use listener::listen;
pub use routes::{resource_route_group, route_group};
pub use state::OAuthState;
