//! The route that a new version must serve before it replaces the version before.

use latchmail_tests::{EVENTUALLY, Service};
use tokio::time::timeout;

use super::{NEW, administrator, install, of_version, serves, that_does};

#[tokio::test]
async fn a_version_serves_only_after_the_configured_probe_succeeds() {
    let service =
        Service::with_mail_and(&format!("{NEW}\nnew_modules.probe = '/variant/version'")).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    for (does, mention) in [("fail", "returned status 500"), ("trap", "it gives up")] {
        install(&admin, &[that_does(does, "2.0.0")], true)
            .await
            .fails_about(400, mention);
        serves(&service, "1.0.0").await;
    }
}

#[tokio::test]
async fn a_version_that_does_not_respond_to_its_probe_is_refused_at_the_deadline() {
    let settings = "new_modules.probe = '/variant/version'\nnew_modules.deadline = 3";
    let service = Service::with_mail_and(&format!("{NEW}\n{settings}")).await;
    let admin = administrator(&service).await;
    service.install(&[of_version("1.0.0")]).await;
    let components = [that_does("wait", "2.0.0")];
    let waits = install(&admin, &components, true);
    let refused = timeout(EVENTUALLY, waits).await.expect("an answer");
    refused.fails_about(400, "passed its deadline");
    serves(&service, "1.0.0").await;
    // It does not delay the next change.
    service.install(&[of_version("3.0.0")]).await;
    serves(&service, "3.0.0").await;
}
