//! The screenshots of `docs/account-page.md`. `./just screenshots` runs this test.

use latchmail_tests::client::REDIRECT_URI;
use latchmail_tests::{Browser, BrowserOptions, Client, Person, Setup};

use super::accessibility::{fill, sign_in};

/// The screens below `/account`, and the names of their files.
const SCREENS: [(&str, &str); 8] = [
    ("", "overview"),
    ("/holds", "holds"),
    ("/grants", "grants"),
    ("/app-passwords", "app-passwords"),
    ("/sessions", "sessions"),
    ("/aliases", "aliases"),
    ("/two-factor", "two-factor"),
    ("/modules", "modules"),
];

#[tokio::test]
#[ignore = "./just screenshots runs it"]
async fn the_screens_of_an_account_in_use() {
    let setup = Setup::default().with_mail();
    let settings = "base_url = ''\ngrants.default_policy = 'assistant'";
    let service = setup.with(settings).start().await;
    let paths = fill(&service).await;
    let ada = Person::sign_in(&service, "ada@first.test", latchmail_tests::PASSWORD).await;
    let client = Client::register_as(&service, "Mail assistant", &[REDIRECT_URI]).await;
    client.tokens(&ada).await;
    let browser = Browser::open(&service.state, &BrowserOptions::NARROW_PHONE).await;
    browser.go(&client.login_url(&[])).await;
    browser.screenshot("consent").await;
    sign_in(&browser, &service, "/account").await;
    let named = SCREENS.map(|(path, name)| (path.to_owned(), name));
    let with_ids = ["hold", "long-hold", "policy", "journal", "grant"];
    let with_ids = paths.into_iter().zip(with_ids);
    for (path, name) in named.into_iter().chain(with_ids) {
        if name == "long-hold" {
            continue;
        }
        browser.go(&format!("{}/account{path}", service.base)).await;
        browser.screenshot(name).await;
    }
}
