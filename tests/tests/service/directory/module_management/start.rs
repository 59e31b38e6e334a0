//! The versions that serve after a start: of modules that are installed, and of files that the
//! configuration names.

use std::path::{Path, PathBuf};

use latchmail_tests::{Log, Service, Variant};
use tempfile::TempDir;

use super::{NEW_MODULES, administrator, assert_serves, install, variant_with_version, version};

#[tokio::test]
async fn the_last_good_version_serves_if_the_newest_cannot_be_loaded_at_the_start() {
    let mut service = Service::with_mail_and(&format!(
        "{NEW_MODULES}\nmodules.variant.paths = ['/variant/']"
    ))
    .await;
    let admin = administrator(&service).await;
    install(&admin, &[variant_with_version("1.0.0")], true)
        .await
        .succeeds(201);
    let moved = Variant {
        version: "2.0.0",
        path: "/variant/v/",
        ..Variant::default()
    };
    install(&admin, &[moved.component()], true)
        .await
        .succeeds(201);
    drop(admin);
    service
        .restart_with(|config| {
            let variant = config.modules.get_mut("variant").unwrap();
            variant.paths = vec!["/variant/version".into()];
        })
        .await;
    assert_serves(&service, "1.0.0").await;
    let listed = service.operator("module list", "").await.succeeds();
    let line = listed
        .lines()
        .find(|line| line.starts_with("variant"))
        .unwrap();
    assert!(line.contains("2.0.0 does not serve"), "{line}");
}

/// Writes a file with the first version of a module to a temporary folder.
fn module_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("variant.wasm");
    std::fs::write(&file, variant_with_version("1.0.0")).unwrap();
    (folder, file)
}

/// Returns a configuration with the module's file as `source`.
fn settings_with_source(file: &Path) -> String {
    format!(
        "modules.variant.source = '{}'\nmodules.variant.paths = ['/variant/']",
        file.display()
    )
}

#[tokio::test]
async fn a_new_configured_file_is_installed_at_the_start_and_a_known_one_is_not() {
    let (folder, file) = module_file();
    let mut service = Service::with(&settings_with_source(&file)).await;
    assert_serves(&service, "1.0.0").await;
    let other = folder.path().join("other.wasm");
    std::fs::write(&other, variant_with_version("2.0.0")).unwrap();
    let install = format!("module install --yes {}", other.display());
    service.operator(&install, "").await.succeeds();
    assert_serves(&service, "2.0.0").await;
    service.restart().await;
    assert_serves(&service, "2.0.0").await;
    std::fs::write(&file, variant_with_version("3.0.0")).unwrap();
    service.restart().await;
    assert_serves(&service, "3.0.0").await;
    service
        .operator("module rollback variant", "")
        .await
        .succeeds();
    assert_serves(&service, "2.0.0").await;
    std::fs::remove_file(&file).unwrap();
    service.restart().await;
    assert_serves(&service, "2.0.0").await;
}

#[tokio::test]
async fn a_new_configured_file_does_not_enable_a_disabled_module() {
    let (_folder, file) = module_file();
    let mut service = Service::with(&settings_with_source(&file)).await;
    assert_serves(&service, "1.0.0").await;
    service
        .operator("module disable variant", "")
        .await
        .succeeds();
    std::fs::write(&file, variant_with_version("2.0.0")).unwrap();
    service.restart().await;
    version(&service).await.fails(404, "There is no such route");
    service
        .operator("module enable variant", "")
        .await
        .succeeds();
    assert_serves(&service, "1.0.0").await;
    service.restart().await;
    assert_serves(&service, "2.0.0").await;
}

#[tokio::test]
async fn one_log_line_explains_why_a_module_does_not_serve() {
    let log = Log::capture_at("error");
    let source = "modules.variant.source = \"/nowhere/a\\nforged.wasm\"";
    let _service = Service::with(source).await;
    let lines = log.lines_with("forged.wasm");
    assert!(
        lines.len() == 1 && lines[0].contains("cannot be loaded"),
        "{lines:?}"
    );
}
