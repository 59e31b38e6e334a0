//! The pages on which users sign in: for a client of the authorization server, for a device, and at
//! the identity provider. The crate [`latchmail_oauth`] implements the OAuth protocols, and the
//! crate [`latchmail_oidc`] implements the protocol with the identity provider.
//!
//! | file | content |
//! |---|---|
//! | `account` | sign-in to the owner's page |
//! | `authorize` | the authorization endpoint: sign-in and consent for a client |
//! | `device` | sign-in and consent for a device |
//! | `provider` | redirects the browser to the identity provider |
//! | `provider_start`, `provider_callback` | the start of a sign-in there, and the return |
//! | `page`, `browser` | the layout, and the cookie and sealed form state of a browser |
//! | `listener` | the separate listener of the authorization server |

mod account;
mod authorize;
mod browser;
mod device;
mod listener;
mod page;
mod provider;
mod provider_callback;
mod provider_start;
mod routes;

pub(crate) use account::{show_account_sign_in, submit_account_sign_in};
pub(crate) use browser::is_same_origin;
pub use listener::{AuthorizationServer, listen};
pub(crate) use page::{error_page, page_without_form};
pub(crate) use routes::{callback_route_group, provider_route_group, route_group};
