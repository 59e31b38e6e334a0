//! The screenshots of `docs/admin.md`. `./just screenshots` runs this test.

use std::time::Duration;

use latchmail_tests::administrator::Administrator;
use latchmail_tests::client::REDIRECT_URI;
use latchmail_tests::{Browser, BrowserOptions, Client, Person, Service, Setup, Variant};
use serde_json::json;
use tokio::time::Instant;

use super::{ROOT, sign_in};

/// The time for which the charts are drawn.
const TRAFFIC: Duration = Duration::from_secs(100);

/// The pages, and the names of their files.
const PAGES: [(&str, &str); 7] = [
    ("modules/newsletter", "module"),
    ("accounts", "accounts"),
    ("accounts/ada@first.test", "account"),
    ("domains", "domains"),
    ("mail-server", "mail-server"),
    ("limits", "limits"),
    ("log", "log"),
];

#[tokio::test]
#[ignore = "./just screenshots runs it"]
async fn the_pages_of_a_service_in_use() {
    let service = Setup::default()
        .with("admin.listen = '127.0.0.1:0'\nnew_modules.paths = ['/newsletter/']")
        .with_default_limits()
        .with_mail()
        .start()
        .await;
    let mut people = Vec::new();
    for name in ["ada", "grace", "linus"] {
        let person = service.person(name).await;
        for subject in ["Minutes of the meeting", "Photos", "Invoice 2041"] {
            let message = format!("From: Ann <ann@elsewhere.example>\nSubject: {subject}\n\nHello");
            person.receive(&message).await;
        }
        people.push(person);
    }
    people[0].app_password("Phone").await;
    people[0].token(&["mail:read"]).await;
    let client = Client::register_as(&service, "Mail assistant", &[REDIRECT_URI]).await;
    client.tokens(&people[0]).await;
    install(&service, "1.0.0", "serve").await;
    for _ in 0..20 {
        service.send("GET /newsletter/version").await;
        service.clock.advance(Duration::from_secs(2));
    }
    install(&service, "1.1.0", "trap").await;
    let wrong = json!({ "email": "grace@first.test", "password": "Wrong-Horse-7" });
    for _ in 0..7 {
        service.post("/api/v1/auth/login", &wrong).await;
    }

    let root = Administrator::create(&service, ROOT).await;
    let browser = Browser::open(&service.state, &BrowserOptions::DESKTOP).await;
    let base = service.operator_page();
    sign_in(&browser, &root, &base).await;
    use_modules(&service, &people).await;
    browser.screenshot("modules").await;
    browser.press("Roll back").await;
    browser.wait_for_text("Roll back the module").await;
    browser.screenshot("confirmation").await;
    for (path, name) in PAGES {
        browser.go(&format!("{base}/admin/{path}")).await;
        browser.screenshot(name).await;
    }
}

async fn install(service: &Service, version: &str, does: &str) {
    let component = Variant {
        name: "newsletter",
        version,
        does,
        path: "/newsletter/",
    };
    service.install(&[component.component()]).await;
}

/// Sends requests to several modules. The clock of the service is faster than the time, so that no
/// request exceeds a rate limit.
async fn use_modules(service: &Service, people: &[Person<'_>]) {
    let end = Instant::now() + TRAFFIC;
    let mut number: usize = 0;
    while Instant::now() < end {
        service.clock.advance(Duration::from_millis(500));
        let person = &people[number % people.len()];
        let path = match number % 12 {
            0 => "/api/v1/aliases",
            3 => "/api/v1/tokens",
            _ => "/api/v1/mail/folders/INBOX/messages",
        };
        person.send(&format!("GET {path}")).await;
        if number.is_multiple_of(10) {
            service.send("GET /newsletter/version").await;
        }
        number += 1;
        // The requests are as irregular as those of users.
        let pause = [20, 30, 200, 40, 60, 120, 30][number % 7];
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
