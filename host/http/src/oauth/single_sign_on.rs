//! The endpoints of single sign-on. The protocol with the provider is in `latchmail-oidc`. The
//! accounts and sessions are in [`latchmail_accounts::auth::single_sign_on`].
//!
//! | file | content |
//! |---|---|
//! | `token` | a client exchanges its code for a web session |
//! | `logout` | the provider ends web sessions |

mod logout;
mod routes;
mod token;

pub use routes::route_group;
