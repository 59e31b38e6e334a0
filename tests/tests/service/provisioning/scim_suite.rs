//! The public compliance suite of SCIM (scim2-tester).

use latchmail_tests::tools_folder;
use tokio::process::Command;

use super::{Program, service};

#[tokio::test]
async fn the_compliance_suite_finds_nothing() {
    let service = service().await;
    let program = Program::new(&service, "suite", "scim").await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scim_suite.py");
    let output = Command::new(tools_folder().join("scim/bin/python"))
        .arg(script)
        .arg(format!("{}/scim/v2", program.base))
        .arg(&program.token)
        .output()
        .await
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}{errors}");
}
