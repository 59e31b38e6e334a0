//! The HTML pages of the service. The pages use the application state, the request type and the
//! response type of `latchmail-http`. The main listener of `latchmail-http` serves the pages in
//! [`PAGES`].
//!
//! | | |
//! |---|---|
//! | `layout` | the head of all pages, their headers, redirects |
//! | `documentation` | the start page, the API description in a viewer, the pages in Markdown |
//! | [`sign_in`] | sign-in and consent for clients and devices, with the listener `oauth.listen` |
//! | [`operator`] | the operator's page, with the listener `admin.listen` |
//! | `account` | the page on which owners see and change their accounts |
//! | `credentials` | the credentials in the form of a sign-in page |
//! | `shell`, `elements` | the frame and the elements of the operator's page and the owner's page |
//! | `page_session` | the cookie and the forms of these two pages |
//! | `policy_words` | the policy of a grant in words |

mod account;
mod credentials;
mod documentation;
mod elements;
mod layout;
pub mod operator;
mod page_session;
mod policy_words;
mod shell;
pub mod sign_in;

use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_http::app::Pages;
use latchmail_http::route_group::RouteGroup;
use latchmail_http::{App, oauth};

/// The pages that the main listener serves, and the function that renders its error pages.
pub const PAGES: Pages = Pages {
    route_groups,
    error: sign_in::error_page,
};

fn route_groups(config: &Config) -> Result<Vec<RouteGroup<App>>, StartError> {
    let mut groups = vec![
        documentation::route_group()?,
        documentation::markdown::route_group()?,
        account::route_group(),
    ];
    if oauth::is_on_main_listener(config) {
        groups.push(sign_in::route_group()?);
    }
    if config.sign_in.uses_provider() {
        groups.push(sign_in::provider_route_group()?);
        groups.push(sign_in::callback_route_group()?);
    }
    Ok(groups)
}
