//! The commands `latchmail module …`, and the record of changes.

use latchmail_tests::{Service, modules};
use serde_json::Value;

use super::{
    NEW_MODULES, administrator, assert_serves, install, variant_that, variant_with_version, version,
};

#[tokio::test]
async fn the_operator_reviews_and_confirms_an_installation() {
    let service = Service::with(NEW_MODULES).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, component: Vec<u8>| {
        let file = folder.path().join(name);
        std::fs::write(&file, component).unwrap();
        file.display().to_string()
    };
    let one = file("one.wasm", variant_with_version("1.0.0"));
    let output = service
        .operator(&format!("module inspect {one}"), "")
        .await
        .succeeds();
    for mention in [
        "variant 1.0.0",
        "GET /variant/version for any client",
        "can be installed",
    ] {
        assert!(output.contains(mention), "{output}");
    }
    version(&service).await.fails(404, "There is no such route");
    service
        .operator(&format!("module install {one}"), "")
        .await
        .fails_mentioning("the public route GET /variant/version");
    let output = service
        .operator(&format!("module install --yes {one}"), "")
        .await
        .succeeds();
    assert!(
        output.starts_with("variant 1.0.0 is serving (digest "),
        "{output}"
    );
    let more = file("more.wasm", variant_that("more", "2.0.0"));
    service
        .operator(&format!("module install {more}"), "")
        .await
        .fails_mentioning("--yes");
    assert_serves(&service, "1.0.0").await;
    service
        .operator(&format!("module install --yes {more}"), "")
        .await
        .succeeds();
    service.send("GET /variant/more").await.succeeds(200);
    let mail = modules().join("latchmail_mail.wasm");
    let output = service
        .operator(&format!("module inspect {}", mail.display()), "")
        .await
        .succeeds();
    assert!(output.contains("latchmail:host/mailbox@"), "{output}");
    service
        .operator("module install /nowhere/x.wasm", "")
        .await
        .fails_mentioning("/nowhere/x.wasm");
}

#[tokio::test]
async fn components_over_the_size_limit_are_refused_and_the_error_names_the_limit() {
    let service = Service::with(NEW_MODULES).await;
    let large = service.state.join("large.wasm");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(96 * 1024 * 1024).unwrap();
    for verb in ["inspect", "install"] {
        service
            .operator(&format!("module {verb} {}", large.display()), "")
            .await
            .fails_mentioning("95 MiB");
    }
}

#[tokio::test]
async fn the_commands_report_that_no_service_runs() {
    let mut service = Service::start().await;
    service.stop().await;
    service
        .operator("module list", "")
        .await
        .fails_mentioning("no service listens on");
}

#[tokio::test]
async fn changes_of_modules_are_in_the_audit_log() {
    let service = Service::with_mail_and(NEW_MODULES).await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[variant_with_version("2.0.0")], true)
        .await
        .succeeds(201);
    service
        .operator("module rollback variant", "")
        .await
        .succeeds();
    service
        .operator("module disable variant", "")
        .await
        .succeeds();
    let record = service.operator("audit --json", "").await.succeeds();
    let events: Vec<(String, String)> = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["subject"] == "variant")
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            (text("kind"), text("actor"))
        })
        .collect();
    let admin = admin.address.clone();
    let expected = [
        ("module_installed", admin.as_str()),
        ("module_installed", &admin),
        ("module_rolled_back", "operator"),
        ("module_disabled", "operator"),
    ];
    assert_eq!(
        events,
        expected.map(|(kind, actor)| (kind.to_owned(), actor.to_owned()))
    );
}
