//! The starting points for authors of modules in a complete service: the project of
//! `latchmail module new`, and the example with stored state.

use std::path::PathBuf;

use latchmail_tests::{Service, modules, program};
use serde_json::{Value, json};
use tokio::process::Command;

/// Returns the folder into which `./just rust-examples` builds.
fn example(file: &str) -> PathBuf {
    modules().with_file_name("examples").join(file)
}

fn loaded(name: &str, file: &str, grants: &str) -> String {
    format!(
        "modules.{name}.source = '{}'\nmodules.{name}.grants = [{grants}]",
        example(file).display()
    )
}

fn subjects(digest: &Value) -> Vec<&str> {
    let messages = digest["messages"].as_array().unwrap().iter();
    messages.map(|m| m["subject"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_new_project_is_a_working_module() {
    let grants = "'caller', 'mailbox', 'store'";
    let settings = loaded("first-steps", "first_steps.wasm", grants);
    let service = Service::with(&settings).await;
    let ada = service.person("ada").await;
    let greeted = ada.send("GET /api/v1/first-steps/hello").await;
    assert_eq!(greeted.succeeds(200), json!({ "hello": ada.address }));
    let nobody = service.send("GET /api/v1/first-steps/hello").await;
    assert_eq!(nobody.status, 401);
    let described = service.send("GET /api/openapi.json").await.succeeds(200);
    let operation = &described["paths"]["/api/v1/first-steps/hello"]["get"];
    assert_eq!(operation["operationId"], "helloFirstSteps");
}

#[tokio::test]
async fn a_digest_contains_the_messages_since_the_mark() {
    let settings = loaded(
        "digest",
        "latchmail_digest.wasm",
        "'caller', 'mailbox', 'outbox', 'store'",
    );
    let mut service = Service::with_mail_and(&settings).await;
    let ada = service.person("ada").await;
    let grace = service.person("grace").await;
    for subject in ["One", "Two"] {
        let letter = format!("From: Eve <eve@outside.test>\nSubject: {subject}\n\nHello\n");
        ada.receive(&letter).await;
    }
    let digest = ada.send("GET /api/v1/digest").await.succeeds(200);
    assert_eq!(subjects(&digest), ["Two", "One"]);
    assert_eq!(digest["messages"][0]["from"], "Eve");
    let mark = json!({ "upto": digest["upto"] });
    let marked = ada.post("/api/v1/digest/mark", &mark).await;
    assert_eq!(marked.succeeds(200), mark);
    ada.receive("From: eve@outside.test\nSubject: Three\n\nHello\n")
        .await;
    grace
        .receive("From: eve@outside.test\nSubject: For Grace\n\nHello\n")
        .await;
    let (access, others) = (ada.access.clone(), grace.access.clone());
    // Stored values persist through a restart.
    service.restart().await;
    let digest = service.with_bearer("GET /api/v1/digest", &access).await;
    assert_eq!(subjects(&digest.succeeds(200)), ["Three"]);
    let digest = service.with_bearer("GET /api/v1/digest", &others).await;
    assert_eq!(subjects(&digest.succeeds(200)), ["For Grace"]);
}

#[tokio::test]
async fn a_token_with_mail_read_can_read_the_digest_and_not_mark_it() {
    let settings = loaded(
        "digest",
        "latchmail_digest.wasm",
        "'caller', 'mailbox', 'outbox', 'store'",
    );
    let service = Service::with_mail_and(&settings).await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    let digest = service.with_bearer("GET /api/v1/digest", token).await;
    assert_eq!(digest.succeeds(200)["messages"], json!([]));
    let request = service
        .request("POST /api/v1/digest/mark")
        .bearer_auth(token);
    let refused = latchmail_tests::Response::of(request.json(&json!({ "upto": 7 }))).await;
    refused.fails(403, "This credential is missing the \"mail:write\" scope");
}

#[tokio::test]
async fn a_project_is_created_only_in_a_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    let new = async |name: &str| {
        let mut command = Command::new(program());
        command.current_dir(&folder).args(["module", "new"]);
        command.args(name.split(' '));
        latchmail_tests::ProgramOutput::of(&mut command, "").await
    };
    let made = new("my-notes").await.succeeds();
    assert!(
        made.contains("target/wasm32-wasip2/release/my_notes.wasm"),
        "{made}"
    );
    assert!(folder.path().join("my-notes/src/lib.rs").is_file());
    new("my-notes").await.fails_mentioning("my-notes already");
    for (language, component) in [
        ("typescript", "build/ts.wasm"),
        ("javascript", "build/js.wasm"),
        ("python", "build/py.wasm"),
        ("go", "build/go.wasm"),
    ] {
        let name = component
            .trim_start_matches("build/")
            .trim_end_matches(".wasm");
        let made = new(&format!("{name} --language {language}"))
            .await
            .succeeds();
        assert!(made.contains(component), "{made}");
        let world = folder.path().join(name).join("wit/world.wit");
        let world = std::fs::read_to_string(world).unwrap();
        let imports = match language {
            "go" => "include latchmail:host/everything@",
            _ => "import latchmail:host/mailbox@",
        };
        assert!(world.contains(imports), "{world}");
    }
    for bad in ["../elsewhere", "Notes", "type", "c --language cobol"] {
        assert_eq!(new(bad).await.status, 2, "{bad}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 5);
}
