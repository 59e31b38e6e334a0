//! Two-factor sign-in: set-up with a code of the new secret, recovery codes, and the end.

use std::time::Duration;

use latchmail_tests::administrator::{FormBrowser, PageForm, text};
use latchmail_tests::client::between;
use latchmail_tests::{PASSWORD, Response, Service};
use totp_rs::{Builder, Secret};

use super::{assert_done, service};

const PATH: &str = "/account/two-factor";

/// Returns a code that was not used before.
fn code(service: &Service, secret: &str) -> String {
    service.clock.advance(Duration::from_mins(1));
    let secret = Secret::try_from_base32(secret).unwrap();
    let totp = Builder::new().with_secret(secret).build().unwrap();
    let now = service.clock.now().seconds();
    totp.generate(now.try_into().unwrap()).to_string()
}

async fn submit(browser: &FormBrowser, form: &PageForm, password: &str, code: &str) -> Response {
    let mut form = form.clone();
    form.fields.insert("password".into(), password.into());
    form.fields.insert("code".into(), code.into());
    browser.submit(&form).await
}

/// Returns the recovery codes on a page.
fn recovery_codes(page: &str) -> Vec<String> {
    let codes = page.split("<li><code>").skip(1);
    codes
        .map(|rest| rest.split('<').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_owner_enables_two_factor_sign_in_and_disables_it() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let page = browser.page(PATH).await;
    assert!(
        page.contains("<svg") && page.contains("otpauth://totp/"),
        "{page}"
    );
    let secret = between(&page, "<code>", "</code>");
    let form = PageForm::named(&page, "Switch on");
    for (password, given, problem) in [
        (PASSWORD, Some("000000"), "not a current code"),
        (PASSWORD, Some(""), "not a current code"),
        ("Wrong-Horse-7", None, "The password is wrong"),
        ("", None, "The password is wrong"),
    ] {
        let given = given.map_or_else(|| code(&service, &secret), str::to_owned);
        let refused = submit(&browser, &form, password, &given).await;
        assert_eq!(refused.status, 403, "{problem}");
        let page = text(&refused);
        assert!(page.contains(problem) && page.contains(&secret), "{page}");
    }
    // Another account cannot use the secret.
    service.create_account("bob@first.test").await;
    let bob = FormBrowser::of_owner(&service, "bob@first.test").await;
    let mut stolen = PageForm::named(&bob.page(PATH).await, "Switch on");
    stolen
        .fields
        .insert("secret".into(), form.fields["secret"].clone());
    let refused = submit(&bob, &stolen, PASSWORD, &code(&service, &secret)).await;
    assert_eq!(refused.status, 400);

    let enabled = submit(&browser, &form, PASSWORD, &code(&service, &secret)).await;
    let page = text(&enabled);
    assert_eq!(enabled.status, 200, "{page}");
    let recovery = recovery_codes(&page);
    assert_eq!(recovery.len(), 10, "{page}");
    assert!(
        browser
            .page(PATH)
            .await
            .contains("Unused recovery codes: 10")
    );

    let sign_in = async |given: &str| {
        let browser = FormBrowser::open(&service.base);
        let path = "/account/sign-in";
        browser
            .sign_in_to_account(path, &ada.address, PASSWORD, given)
            .await
    };
    let missing = sign_in("").await;
    assert!(text(&missing).contains("Enter your two-factor code"));
    assert_eq!(sign_in("000000").await.status, 403);
    let right = code(&service, &secret);
    assert_eq!(sign_in(&right).await.status, 303);
    assert_eq!(sign_in(&right).await.status, 403, "a code is valid once");
    assert_eq!(sign_in(&recovery[0]).await.status, 303);

    let path = format!("{PATH}/recovery-codes");
    let form = PageForm::named(&browser.page(&path).await, "Create");
    let refused = submit(&browser, &form, PASSWORD, "000000").await;
    assert_eq!(refused.status, 403, "{}", text(&refused));
    let renewed = submit(&browser, &form, PASSWORD, &code(&service, &secret)).await;
    let renewed = recovery_codes(&text(&renewed));
    assert_eq!(renewed.len(), 10);
    assert_eq!(sign_in(&recovery[1]).await.status, 403);

    let path = format!("{PATH}/disable");
    let form = PageForm::named(&browser.page(&path).await, "Switch off");
    let missing = submit(&browser, &form, PASSWORD, "").await;
    assert!(text(&missing).contains("Enter your two-factor code"));
    let disabled = submit(&browser, &form, PASSWORD, &renewed[0]).await;
    assert_done(&browser, &disabled, "Two-factor sign-in was switched off").await;
    assert_eq!(sign_in("").await.status, 303);
    let log = service.operator("audit --json", "").await.succeeds();
    for event in [
        "two_factor_on",
        "two_factor_change_failed",
        "two_factor_off",
    ] {
        assert!(log.contains(event), "{event}: {log}");
    }
}
