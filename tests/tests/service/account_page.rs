//! The owner's page: sign-in, each screen without JavaScript, protection against other sites and
//! other accounts, and the screens in a browser on a phone.

mod accessibility;
mod attacks;
mod credentials;
mod grants;
mod holds;
mod screenshots;
mod sign_in;
mod two_factor;

use latchmail_tests::administrator::{FormBrowser, text};
use latchmail_tests::{Person, Response, Service, Setup};
use serde_json::Value;

const FOLDERS: &str = "GET /api/v1/mail/folders";

/// Starts a service with mail servers that browsers reach at the URL of its configuration.
async fn service() -> Service {
    service_with("").await
}

/// The same with additional lines of configuration.
async fn service_with(settings: &str) -> Service {
    let setup = Setup::default().with_mail().with("base_url = ''");
    setup.with(settings).start().await
}

/// Asserts that an action succeeded, and that the next page shows this result once.
async fn assert_done(browser: &FormBrowser, response: &Response, notice: &str) {
    assert_eq!(response.status, 303, "{}", text(response));
    let next = response.header("location").unwrap().to_owned();
    let page = browser.page(&next).await;
    assert!(page.contains(notice), "{notice}: {page}");
    assert!(!browser.page(&next).await.contains(notice), "{notice}");
}

/// Returns the string in a field of a JSON object.
fn string<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

/// Gives a grant a preset on its page.
async fn use_preset(browser: &FormBrowser, grant: &str, preset: &str) {
    let path = format!("/account/grants/{grant}/policy");
    let button = format!("Use {preset}");
    let saved = browser
        .press(&path, (button.as_str(), "/policy"), &[])
        .await;
    assert_done(browser, &saved, "is changed").await;
}

/// Returns the policy of a grant, as the API does.
async fn policy(person: &Person<'_>, grant: &str) -> Value {
    let line = format!("GET /api/v1/profile/grants/{grant}/policy");
    person.send(&line).await.succeeds(200)
}
