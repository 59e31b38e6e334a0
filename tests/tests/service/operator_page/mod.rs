//! The operator's page: sign-in, protection against other sites, and the actions of administrators without JavaScript.

mod accessibility;
mod accounts;
mod attacks;
mod charts;
mod modules;
mod pages;
mod screenshots;
mod sign_in;

use latchmail_tests::{Service, Setup};

/// Starts a service with the operator's page and without mail servers.
async fn service() -> Service {
    Setup::default()
        .with("admin.listen = '127.0.0.1:0'\nnew_modules.paths = ['/variant/']")
        .start()
        .await
}
