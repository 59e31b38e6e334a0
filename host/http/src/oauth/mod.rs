//! The authorization server's endpoints and pages, and the metadata by which agents find the server (specification, sections 4.9 and 5). The rules of the
//! protocols are in [`latchmail_oauth`].
//!
//! The endpoints return JSON as the protocols define it: `error` is a code (RFC 6749, section 5.2). The pages are HTML. By default the server uses the
//! service's listener. If `oauth.listen` is set, the server has its own listener.

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
