//! The probe route that a new version must serve before it replaces the previous version.

use latchmail_tests::{Service, TEST_TIMEOUT};
use tokio::time::timeout;

use super::{
    NEW_MODULES, administrator, assert_serves, install, variant_that, variant_with_version,
};

#[tokio::test]
async fn a_version_serves_only_after_the_configured_probe_succeeds() {
    let service = Service::with_mail_and(&format!(
        "{NEW_MODULES}\nnew_modules.probe = '/variant/version'"
    ))
    .await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    for (does, mention) in [("fail", "returned status 500"), ("trap", "it gives up")] {
        install(&admin, &[variant_that(does, "2.0.0")], true)
            .await
            .fails_mentioning(400, mention);
        assert_serves(&service, "1.0.0").await;
    }
}

#[tokio::test]
async fn a_version_that_does_not_respond_to_its_probe_is_refused_at_the_deadline() {
    let settings = "new_modules.probe = '/variant/version'\nnew_modules.deadline = 3";
    let service = Service::with_mail_and(&format!("{NEW_MODULES}\n{settings}")).await;
    let admin = administrator(&service).await;
    service.install(&[variant_with_version("1.0.0")]).await;
    let components = [variant_that("wait", "2.0.0")];
    let waits = install(&admin, &components, true);
    let refused = timeout(TEST_TIMEOUT, waits).await.expect("an answer");
    refused.fails_mentioning(400, "passed its deadline");
    assert_serves(&service, "1.0.0").await;
    // The refused version does not delay the next change.
    service.install(&[variant_with_version("3.0.0")]).await;
    assert_serves(&service, "3.0.0").await;
}
