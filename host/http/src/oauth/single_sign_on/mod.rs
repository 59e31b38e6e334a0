//! Sign-in at the identity provider, and back-channel logout. The protocol with the provider is in
//! `latchmail-oidc`. The accounts and sessions are in [`latchmail_accounts::auth::single_sign_on`].
//!
//! | file | content |
//! |---|---|
//! | `start` | a client starts a sign-in |
//! | `flow` | redirects the browser to the provider |
//! | `callback` | the browser returns from the provider |
//! | `token` | a client exchanges its code for a web session |
//! | `logout` | the provider ends web sessions |

mod callback;
mod flow;
mod logout;
mod routes;
mod start;
mod token;

pub(super) use flow::{Destination, ProviderChoice, continue_at_provider};
pub use routes::{callback_route_group, route_group};
