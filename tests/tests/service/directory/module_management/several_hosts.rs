//! Changes of modules on one of several hosts, and the readiness of a host.

use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_tests::{SecondHost, Service, wait_until};
use serde_json::json;

use super::*;

/// Waits until a host serves a version of the variant, or no version.
async fn wait_for(host: &SecondHost, wanted: Option<&str>) {
    let what = format!("the other host serves {wanted:?}");
    wait_until(&what, async || {
        let response = host.send("GET /variant/version").await;
        match wanted {
            Some(version) => response.json["version"] == version,
            None => response.status == 404,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_module_reaches_the_other_host() {
    let service = Service::with(NEW_MODULES).await;
    let other = service.second_host().await;
    let (app, origin) = (service.app(), Origin::operator());
    let modules = &app.module_manager;
    service.install(&[variant_with_version("1.0.0")]).await;
    wait_for(&other, Some("1.0.0")).await;
    service.install(&[variant_with_version("2.0.0")]).await;
    wait_for(&other, Some("2.0.0")).await;
    let rolled_back = modules.roll_back(app, "variant", None, &origin).await;
    rolled_back.unwrap();
    wait_for(&other, Some("1.0.0")).await;
    modules
        .set_enabled(app, "variant", false, &origin)
        .await
        .unwrap();
    wait_for(&other, None).await;
    modules
        .set_enabled(app, "variant", true, &origin)
        .await
        .unwrap();
    wait_for(&other, Some("1.0.0")).await;
    let removed = modules.remove(app, "variant", false, &origin).await;
    removed.unwrap();
    wait_for(&other, None).await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_starts_from_the_state_that_another_host_has_written() {
    let service = Service::with(NEW_MODULES).await;
    let other = service.second_host().await;
    let (app, origin) = (other.app(), Origin::operator());
    service.install(&[variant_with_version("1.0.0")]).await;
    service.install(&[variant_with_version("2.0.0")]).await;
    // The other host need not have read the events yet.
    let modules = &app.module_manager;
    let rolled_back = modules.roll_back(app, "variant", None, &origin).await;
    rolled_back.unwrap();
    wait_for(&other, Some("1.0.0")).await;
    let again = service
        .app()
        .module_manager
        .roll_back(service.app(), "variant", None, &origin);
    let error = again.await.unwrap_err().to_string();
    assert!(error.contains("has no earlier version"), "{error}");
    assert_serves(&service, "1.0.0").await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_down_during_a_change_serves_the_new_version_at_once() {
    let service = Service::with(NEW_MODULES).await;
    let other = service.second_host().await;
    service.install(&[variant_with_version("1.0.0")]).await;
    wait_for(&other, Some("1.0.0")).await;
    other.stop().await;
    service.install(&[variant_with_version("2.0.0")]).await;
    let other = service.second_host().await;
    let response = other.send("GET /variant/version").await.succeeds(200);
    assert_eq!(response["version"], "2.0.0");
    other.stop().await;
}

/// During an upgrade of the hosts, a host with the old file restarts after a host with the new
/// file.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_an_old_file_does_not_replace_the_version_of_the_other_hosts() {
    let files = tempfile::tempdir().unwrap();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| {
        let file = files.path().join(version);
        std::fs::write(&file, variant_with_version(version)).unwrap();
        file
    });
    let section = format!(
        "modules.variant.paths = ['/variant/']\nmodules.variant.source = '{}'",
        old.display()
    );
    let service = Service::with(&section).await;
    assert_serves(&service, "1.0.0").await;
    let upgraded = service
        .second_host_with(|config| {
            if let Some(module) = config.modules.get_mut("variant") {
                module.source = Some(new);
            }
        })
        .await;
    wait_until("the old host serves the new version", async || {
        version(&service).await.json["version"] == "2.0.0"
    })
    .await;
    upgraded.stop().await;
    let restarted = service.second_host().await;
    let response = restarted.send("GET /variant/version").await;
    assert_eq!(response.succeeds(200)["version"], "2.0.0");
    restarted.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_run_a_version_is_not_ready_while_another_host_can() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let other = service
        .second_host_with(|config| config.new_modules = None)
        .await;
    other.send("GET /api/readiness").await.succeeds(200);
    service.install(&[variant_with_version("1.0.0")]).await;
    let not_ready =
        json!({ "status": "unavailable", "database": "ok", "mail": "ok", "reason": "modules" });
    wait_until("the other host is not ready", async || {
        let response = other.send("GET /api/readiness").await;
        response.status == 503 && response.json == not_ready
    })
    .await;
    let problems = other.app().module_manager.problems();
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert!(problem.contains("[modules.variant]"), "{problem}");
    wait_until("the other host announces its problem", async || {
        let hosts = service.app().directory.hosts.list().await.unwrap();
        hosts
            .iter()
            .any(|host| host.problem.as_ref() == Some(problem))
    })
    .await;
    service.send("GET /api/readiness").await.succeeds(200);
    assert_serves(&service, "1.0.0").await;

    let (app, origin) = (service.app(), Origin::operator());
    let modules = &app.module_manager;
    let disabled = modules.set_enabled(app, "variant", false, &origin).await;
    disabled.unwrap();
    wait_until("the other host is ready again", async || {
        other.send("GET /api/readiness").await.status == 200
    })
    .await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_host_serves_requests_but_is_not_ready() {
    let service = Service::with("").await;
    let other = service
        .second_host_with(|config| config.http.drain_delay = Duration::from_secs(1))
        .await;
    let [readiness, health] =
        ["GET /api/readiness", "GET /api/health"].map(|line| other.request(line));
    let stopped = tokio::spawn(other.stop());
    wait_until("the host is not ready", async || {
        let response = Response::of(readiness.try_clone().unwrap()).await;
        response.status == 503 && response.json["reason"] == "stopping"
    })
    .await;
    let response = Response::of(health).await;
    assert_eq!(response.header("connection"), Some("close"));
    response.succeeds(200);
    stopped.await.unwrap();
    readiness.send().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_file_is_missing_reports_it_and_serves_the_installed_version() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("variant.wasm");
    std::fs::write(&file, variant_with_version("1.0.0")).unwrap();
    let sections = format!(
        "{NEW_MODULES}\nmodules.variant.paths = ['/variant/']\nmodules.variant.source = '{}'",
        file.display()
    );
    let service = Service::with(&sections).await;
    std::fs::remove_file(&file).unwrap();
    let host = service.second_host().await;
    let another = Variant {
        name: "other",
        path: "/other/",
        ..Variant::default()
    };
    service.install(&[another.component()]).await;
    wait_until("the other host has loaded the other module", async || {
        host.send("GET /other/version").await.status == 200
    })
    .await;
    wait_for(&host, Some("1.0.0")).await;
    let modules = &host.app().module_manager;
    let listed = modules.list();
    let problem = |name| {
        listed
            .iter()
            .find(|one| one.name == name)
            .unwrap()
            .problem
            .as_deref()
    };
    assert!(problem("variant").is_some_and(|text| text.contains("cannot be read")));
    assert_eq!(problem("other"), None);
    assert_eq!(modules.problems(), [""; 0]);
    host.stop().await;
}
