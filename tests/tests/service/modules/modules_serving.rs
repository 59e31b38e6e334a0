//! Modules as operators and clients see them: the components that are loaded, their access, and
//! failures.

use latchmail_runtime::modules::CONTRACT;
use latchmail_tests::{Response, Service, fixtures, modules, start_error};

fn probe(more: &str) -> String {
    let source = fixtures().join("fixture_probe.wasm");
    format!(
        "modules.probe.source = '{}'\nmodules.probe.grants = ['caller', 'mailbox']\nmodules.probe.paths = ['/probe/']\nmodules.probe.memory = 8\nmodules.probe.config = {{ colour = 'green' }}\n{more}",
        source.display()
    )
}

async fn request(service: &Service, what: &str) -> Response {
    service.send(&format!("GET /probe/do/{what}")).await
}

async fn text_of(service: &Service, what: &str) -> String {
    let response = request(service, what).await;
    assert_eq!(response.status, 200, "{what}: {}", response.json);
    String::from_utf8(response.body).unwrap()
}

#[tokio::test]
async fn a_module_sees_its_caller_and_settings_and_nothing_of_the_machine() {
    let service = Service::with(&probe("")).await;
    assert_eq!(text_of(&service, "who").await, "anonymous");
    assert!(text_of(&service, "mail").await.contains("Denied"));
    assert_eq!(
        text_of(&service, "setting").await,
        "Some(\"green\") [(\"colour\", \"green\")]"
    );
    assert_eq!(text_of(&service, "environment").await, "0 0 false");
    let denied = "Some(PermissionDenied)";
    assert_eq!(
        text_of(&service, "sockets").await,
        format!("[{denied}, {denied}, {denied}] false")
    );
    assert_eq!(text_of(&service, "log").await, "logged");
}

#[tokio::test]
async fn every_request_gets_a_fresh_sandbox() {
    let service = Service::with(&probe("")).await;
    for _ in 0..3 {
        assert_eq!(text_of(&service, "remember").await, "0");
    }
}

#[tokio::test]
async fn a_body_of_ten_megabytes_passes_through_a_sandbox_of_eight() {
    let service = Service::with(&probe("")).await;
    let body: Vec<u8> = (0..10 * 1024 * 1024_u32)
        .map(|n| n.to_le_bytes()[1])
        .collect();
    let request = service.request("POST /probe/echo").body(body.clone());
    let response = Response::of(request).await;
    assert_eq!(response.status, 200, "{}", response.json);
    assert!(response.body == body, "the body was changed");
}

#[tokio::test]
async fn a_module_can_read_a_blob_in_small_pieces() {
    let service = Service::with(&probe("")).await;
    let request = service.request("POST /probe/peek").body("0123456789");
    let response = Response::of(request).await;
    assert_eq!(
        String::from_utf8(response.body).unwrap(),
        "10 5678 Ok(0) true"
    );
}

#[tokio::test]
async fn a_body_over_the_limit_of_the_route_is_413_without_a_call_of_the_module() {
    let service = Service::with(&probe("")).await;
    let request = service
        .request("POST /probe/peek")
        .body(vec![0; 12 * 1024 * 1024]);
    let response = Response::of(request).await;
    assert_eq!(response.status, 413);
    assert!(response.json["error"].is_string());
}

#[tokio::test]
async fn a_failing_module_ends_only_its_own_request() {
    let service = Service::with(&probe("modules.probe.cpu = 0.5")).await;
    for what in ["trap", "spin", "call-forever", "grow"] {
        let (failed, fine) = tokio::join!(request(&service, what), text_of(&service, "who"));
        failed.fails(500, "The operation could not be completed");
        assert_eq!(fine, "anonymous", "beside {what}");
    }
    assert_eq!(text_of(&service, "remember").await, "0");
    service.send("GET /api/health").await.succeeds(200);
}

#[tokio::test]
async fn a_module_that_exceeds_its_deadline_is_503_with_retry_after() {
    let service = Service::with(&probe(
        "modules.probe.cpu = 60\nmodules.probe.deadline = 0.3",
    ))
    .await;
    let response = request(&service, "spin").await;
    assert_eq!(response.status, 503, "{}", response.json);
    assert!(response.header("retry-after").is_some());
    assert_eq!(text_of(&service, "who").await, "anonymous");
}

#[tokio::test]
async fn a_module_that_cannot_be_loaded_is_reported_and_the_rest_of_the_service_runs() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.wasm");
    std::fs::write(&garbage, b"\0asm, not really").unwrap();
    let mail = modules().join("latchmail_mail.wasm");
    let probe = fixtures().join("fixture_probe.wasm");
    let module = |name: &str, source: &std::path::Path, grants: &str| {
        format!(
            "modules.{name}.source = '{}'\nmodules.{name}.grants = [{grants}]\n",
            source.display()
        )
    };
    let settings = [
        module("none", &folder.path().join("none.wasm"), ""),
        module("garbage", &garbage, ""),
        module("mail", &mail, "'caller'"),
        module(
            "post",
            &mail,
            "'caller', 'mailbox', 'outbox', 'compose', 'drafts'",
        ),
        module("probe", &probe, "'caller', 'mailbox'"),
    ]
    .concat();
    let service = Service::with_mail_and(&settings).await;
    service.send("GET /api/v1/auth/domains").await.succeeds(200);
    let ada = service.person("ada").await;
    ada.send("GET /api/v1/aliases").await.succeeds(200);
    ada.send("GET /api/v1/mail/folders")
        .await
        .fails(404, "There is no such route");
    let listed = service.operator("module list --json", "").await.succeeds();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let problem = |name: &str| {
        let modules = listed["modules"].as_array().unwrap();
        let module = modules.iter().find(|module| module["name"] == name);
        assert_eq!(module.unwrap()["state"], "failed", "{name}");
        module.unwrap()["problem"].as_str().unwrap().to_owned()
    };
    let mailbox = format!("latchmail:host/mailbox@{CONTRACT}");
    for (name, mentions) in [
        ("none", ["`none`", "cannot be read"]),
        ("garbage", ["`garbage`", "not a WebAssembly component"]),
        ("mail", ["`mail`", &mailbox]),
        ("post", ["`post`", "has the name `mail`"]),
        ("probe", ["`probe`", "/probe/do/{what}"]),
    ] {
        let problem = problem(name);
        for mention in mentions {
            assert!(problem.contains(mention), "{problem:?}: {mention}");
        }
    }
}

#[tokio::test]
async fn an_invalid_limit_of_a_module_stops_the_start() {
    for (settings, mentions) in [
        (
            "modules.mail.grants = ['caller', 'teapot']",
            ["`mail`", "`teapot`"],
        ),
        ("modules.mail.memory = 9999", ["`mail`", "9999 MiB"]),
        (
            "modules.mail.concurrency = 0",
            ["`mail`", "concurrency is 0"],
        ),
        (
            "new_modules.grants = ['teapot']",
            ["`new_modules`", "`teapot`"],
        ),
    ] {
        let sentence = start_error(settings).await;
        for mention in mentions {
            assert!(
                sentence.contains(mention),
                "{sentence:?} does not mention {mention}"
            );
        }
    }
}
