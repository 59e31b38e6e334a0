//! The commands `latchmail module …`, and the record of changes.

use latchmail_tests::{Service, modules};
use serde_json::Value;

use super::{NEW, administrator, install, of_version, serves, that_does, version};

#[tokio::test]
async fn the_operator_reviews_and_confirms_an_installation() {
    let service = Service::with(NEW).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, component: Vec<u8>| {
        let file = folder.path().join(name);
        std::fs::write(&file, component).unwrap();
        file.display().to_string()
    };
    let one = file("one.wasm", of_version("1.0.0"));
    let said = service
        .operator(&format!("module inspect {one}"), "")
        .await
        .done();
    for mention in [
        "variant 1.0.0",
        "GET /variant/version for any client",
        "it can be installed",
    ] {
        assert!(said.contains(mention), "{said}");
    }
    version(&service).await.fails(404, "There is no such route");
    service
        .operator(&format!("module install {one}"), "")
        .await
        .fails_about("the public route GET /variant/version");
    let said = service
        .operator(&format!("module install --yes {one}"), "")
        .await
        .done();
    assert!(said.starts_with("variant 1.0.0 is serving ("), "{said}");
    let more = file("more.wasm", that_does("more", "2.0.0"));
    service
        .operator(&format!("module install {more}"), "")
        .await
        .fails_about("--yes");
    serves(&service, "1.0.0").await;
    service
        .operator(&format!("module install --yes {more}"), "")
        .await
        .done();
    service.ask("GET /variant/more").await.succeeds(200);
    let mail = modules().join("latchmail_mail.wasm");
    let said = service
        .operator(&format!("module inspect {}", mail.display()), "")
        .await
        .done();
    assert!(said.contains("latchmail:host/mailbox@"), "{said}");
    service
        .operator("module install /nowhere/x.wasm", "")
        .await
        .fails_about("/nowhere/x.wasm");
}

#[tokio::test]
async fn components_over_the_size_limit_are_refused_and_the_error_names_the_limit() {
    let service = Service::with(NEW).await;
    let large = service.state.join("large.wasm");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(96 * 1024 * 1024).unwrap();
    for verb in ["inspect", "install"] {
        service
            .operator(&format!("module {verb} {}", large.display()), "")
            .await
            .fails_about("95 MiB");
    }
}

#[tokio::test]
async fn the_commands_report_that_no_service_runs() {
    let mut service = Service::start().await;
    service.stop().await;
    service
        .operator("module list", "")
        .await
        .fails_about("no service listens on");
}

#[tokio::test]
async fn changes_of_modules_are_in_the_audit_log() {
    let service = Service::with_mail_and(NEW).await;
    let admin = administrator(&service).await;
    install(&admin, &[of_version("1.0.0")], true)
        .await
        .succeeds(201);
    install(&admin, &[of_version("2.0.0")], false)
        .await
        .succeeds(201);
    service.operator("module rollback variant", "").await.done();
    service.operator("module disable variant", "").await.done();
    let record = service.operator("audit --json", "").await.done();
    let told: Vec<(String, String)> = record
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
        told,
        expected.map(|(kind, actor)| (kind.to_owned(), actor.to_owned()))
    );
}
