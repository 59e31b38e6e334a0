//! The operator's page: sign-in, protection against other sites, and the actions of administrators
//! without JavaScript.

pub(crate) mod accessibility;
mod accounts;
mod attacks;
mod charts;
mod modules;
mod pages;
mod screenshots;
mod sign_in;

use latchmail_tests::administrator::Administrator;
use latchmail_tests::{Browser, PASSWORD, Service, Setup, Variant};

/// The address of the administrator.
const ROOT: &str = "root@first.test";

/// Starts a service with the operator's page and without mail servers.
async fn service() -> Service {
    Setup::default()
        .with("admin.listen = '127.0.0.1:0'\nnew_modules.paths = ['/variant/']")
        .start()
        .await
}

/// Returns a version of the module `variant`.
fn variant(version: &str, does: &str) -> Vec<u8> {
    Variant {
        version,
        does,
        ..Variant::default()
    }
    .component()
}

/// Signs in with a browser. The page of the modules is then open.
async fn sign_in(browser: &Browser, root: &Administrator<'_>, base: &str) {
    browser.go(&format!("{base}/admin/sign-in")).await;
    browser.find("#email").await.enter(ROOT).await;
    browser.find("#password").await.enter(PASSWORD).await;
    browser.find("#code").await.enter(&root.code()).await;
    browser.press("Sign in").await;
    browser.wait_for_url(&format!("{base}/admin/modules")).await;
}
