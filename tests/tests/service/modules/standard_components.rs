//! Standard components, which export `wasi:http/incoming-handler` and are mounted under a path.

use latchmail_core::caller::Origin;
use latchmail_runtime::manager::NewComponent;
use latchmail_runtime::modules::Mount;
use latchmail_tests::{Response, Service, fixtures, modules};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const SPIN: &str = "modules.spin.paths = ['/spin']";

/// Returns the configuration of the component of wstd, with further lines.
fn wstd_settings(more: &str) -> String {
    format!("modules.wstd.paths = ['/wstd']\nmodules.wstd.grants = ['caller', 'mailbox']\n{more}")
}

fn component(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(format!("fixture_{name}.wasm"))).unwrap()
}

/// Returns a component that is mounted under its name.
fn mounted(name: &str, access: &str) -> NewComponent {
    mounted_at(&format!("/{name}"), name, access)
}

fn mounted_at(path: &str, name: &str, access: &str) -> NewComponent {
    let mount = Mount {
        path: path.into(),
        access: access.into(),
    };
    named(name, mount.add_to(&component(name)))
}

fn named(name: &str, component: Vec<u8>) -> NewComponent {
    NewComponent {
        name: Some(name.into()),
        ..component.into()
    }
}

/// Returns the error of an installation.
async fn install_error(service: &Service, component: NewComponent) -> String {
    let app = service.app();
    let origin = Origin::operator();
    let components = [component];
    let installed = app.module_manager.install(app, &components, true, &origin);
    installed.await.unwrap_err().to_string()
}

#[track_caller]
fn text(response: Response) -> String {
    let text = String::from_utf8(response.body).unwrap();
    assert_eq!(response.status, 200, "{text}");
    text
}

async fn get(service: &Service, path: &str) -> String {
    text(service.send(&format!("GET {path}")).await)
}

#[tokio::test]
async fn a_component_of_the_spin_sdk_serves_all_paths_below_its_mount() {
    let service = Service::with(SPIN).await;
    service.install(&[mounted("spin", "public")]).await;
    for path in ["/spin", "/spin/"] {
        assert_eq!(get(&service, path).await, "Hello from Spin");
    }
    assert_eq!(get(&service, "/spin/hello/Ada").await, "Hello, Ada");
    let body: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let request = service.request("POST /spin/echo").body(body.clone());
    let echo = Response::of(request).await;
    assert_eq!(echo.status, 200);
    assert!(echo.body == body, "the body was changed");
    assert_eq!(service.send("GET /spin/other/page").await.status, 404);
    assert_eq!(service.send("DELETE /spin/hello/Ada").await.status, 405);
    let outside = service.send("GET /spinner").await;
    outside.fails(404, "There is no such route");
}

#[tokio::test]
async fn a_mounted_component_learns_the_caller_from_headers_that_no_client_can_set() {
    let service = Service::with(&wstd_settings("")).await;
    service.install(&[mounted("wstd", "mail:read")]).await;
    assert_eq!(service.send("GET /wstd/request").await.status, 401);
    let ada = service.person("ada").await;
    let request = service
        .request("GET /wstd/request?a=b%20c")
        .bearer_auth(&ada.access)
        .header("x-latchmail-account", "forged@example.org")
        .header("x-latchmail-admin", "forged")
        .header("x-forwarded-for", "forged")
        .header("cookie", "forged=1")
        .header("x-custom", "kept");
    let received = text(Response::of(request).await);
    let lines: Vec<&str> = received.lines().collect();
    assert!(
        lines[0].starts_with("GET https://") && lines[0].ends_with("/request?a=b%20c"),
        "{received}"
    );
    let account = format!("x-latchmail-account: {}", ada.address);
    for expected in [
        account.as_str(),
        "x-latchmail-credential: session",
        "x-forwarded-prefix: /wstd",
        "x-custom: kept",
    ] {
        assert!(lines.contains(&expected), "{received}");
    }
    for hidden in ["forged", "authorization", &ada.access] {
        assert!(!received.contains(hidden), "{received}");
    }
    let caller = ada.send("GET /wstd/caller").await;
    assert_eq!(text(caller), ada.address);
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();
    let received = text(service.with_bearer("GET /wstd/request", token).await);
    assert!(
        received.contains("x-latchmail-credential: api-token")
            && received.contains("x-latchmail-scopes: mail:read"),
        "{received}"
    );
    let other = ada.token(&["aliases:read"]).await;
    let other = other["token"].as_str().unwrap();
    let refused = service.with_bearer("GET /wstd/request", other).await;
    refused.fails(403, "This credential is missing the \"mail:read\" scope");
}

#[tokio::test]
async fn a_public_mount_has_no_caller() {
    let service = Service::with(&wstd_settings("")).await;
    service.install(&[mounted("wstd", "public")]).await;
    let ada = service.person("ada").await;
    let received = text(ada.send("GET /wstd/request").await);
    assert!(!received.contains("x-latchmail-"), "{received}");
    assert!(!received.contains(&ada.access), "{received}");
    assert_eq!(get(&service, "/wstd/caller").await, "");
}

#[tokio::test]
async fn a_mounted_component_has_the_limits_of_a_module() {
    let settings = wstd_settings("modules.wstd.response = 1\nmodules.wstd.cpu = 0.5");
    let service = Service::with(&settings).await;
    service.install(&[mounted("wstd", "public")]).await;
    for failing in ["large", "error", "compute"] {
        let response = service.send(&format!("GET /wstd/{failing}")).await;
        response.fails(500, "The operation could not be completed");
    }
    let request = service.request("POST /wstd/echo");
    let too_large = Response::of(request.body(vec![0; 11 * 1024 * 1024])).await;
    assert_eq!(too_large.status, 413);
    let cookie = service.send("GET /wstd/cookie").await;
    assert_eq!((cookie.status, cookie.header("set-cookie")), (200, None));
    assert_eq!(get(&service, "/wstd").await, "Hello from wstd");
    let log = service.operator("module log wstd", "").await.succeeds();
    for reason in [
        "more than 1048576 bytes",
        "an error of the component",
        "CPU",
    ] {
        assert!(log.contains(reason), "{log}");
    }
}

#[tokio::test]
async fn a_mounted_component_reaches_only_the_hosts_of_its_section() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 16 * 1024];
            let _ = stream.read(&mut head).await;
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    let path = format!("/wstd/fetch?http://{at}/page");
    let hosts = format!("modules.wstd.hosts = ['http://{at}']");
    let mut service = Service::with(&wstd_settings(&hosts)).await;
    service.install(&[mounted("wstd", "public")]).await;
    let denied = get(&service, &path).await;
    assert!(denied.contains("HttpRequestDenied"), "{denied}");
    service
        .restart_with(|config| {
            let policy = config.modules.get_mut("wstd").unwrap();
            policy.grants.push("http-client".into());
        })
        .await;
    assert_eq!(get(&service, &path).await, "200 OK hello");
    let other = get(&service, "/wstd/fetch?http://127.0.0.1:1/").await;
    assert!(other.contains("HttpRequestDenied"), "{other}");
}

#[tokio::test]
async fn a_mounted_component_reads_the_mailbox_of_its_caller() {
    let service = Service::with_mail_and(&wstd_settings("")).await;
    service.install(&[mounted("wstd", "session")]).await;
    let ada = service.person("ada").await;
    let folders = text(ada.send("GET /wstd/folders").await);
    assert!(folders.split(' ').any(|path| path == "INBOX"), "{folders}");
}

#[tokio::test]
async fn the_operator_mounts_a_component_with_one_command() {
    let service = Service::with(SPIN).await;
    let file = fixtures().join("fixture_spin.wasm");
    let file = file.display();
    let command = format!("module install spin --http /spin --access public {file}");
    let refused = service.operator(&command, "").await;
    refused.fails_mentioning("the public route GET /spin");
    let installed = service.operator(&format!("{command} --yes"), "").await;
    let installed = installed.succeeds();
    assert!(
        installed.starts_with("spin 0.0.0 is serving"),
        "{installed}"
    );
    assert_eq!(get(&service, "/spin").await, "Hello from Spin");
    let description = service.send("GET /api/openapi.json").await;
    let description: Value = description.succeeds(200);
    let operation = &description["paths"]["/spin/{*rest}"]["get"];
    assert_eq!(operation["operationId"], "spinGetBelow");
    let outside = format!("module install spin --http /other {file}");
    let outside = service.operator(&outside, "").await;
    outside.fails_mentioning("is outside its allowed paths");
    let twice = format!("module install spin --http /spin {file} {file}");
    let twice = service.operator(&twice, "").await;
    twice.fails_mentioning("--http mounts one component");
}

#[tokio::test]
async fn a_mount_stays_after_a_restart() {
    let mut service = Service::with(SPIN).await;
    service.install(&[mounted("spin", "public")]).await;
    service.restart().await;
    assert_eq!(get(&service, "/spin/hello/Ada").await, "Hello, Ada");
}

#[tokio::test]
async fn a_component_that_cannot_be_mounted_is_refused_with_the_reason() {
    let service = Service::with(&format!("{SPIN}\n{}", wstd_settings(""))).await;
    let unmounted = install_error(&service, named("spin", component("spin"))).await;
    assert!(unmounted.contains("--http PATH"), "{unmounted}");
    let module = std::fs::read(modules().join("latchmail_mail.wasm")).unwrap();
    let mount = Mount {
        path: "/spin".into(),
        access: "session".into(),
    };
    let module = install_error(&service, named("spin", mount.add_to(&module))).await;
    assert!(module.contains("a module with a manifest"), "{module}");
    let everyone = install_error(&service, mounted("spin", "everyone")).await;
    assert!(everyone.contains("everyone"), "{everyone}");
    let root = install_error(&service, mounted_at("/", "spin", "session")).await;
    assert!(root.contains("the path \"/\""), "{root}");
    let unnamed = NewComponent {
        name: None,
        ..mounted("spin", "session")
    };
    let unnamed = install_error(&service, unnamed).await;
    assert!(unnamed.contains("needs a name"), "{unnamed}");
}
