//! The service routes.

use std::net::SocketAddr;

use latchmail_tests::{Response, Service};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test]
async fn health_returns_the_time_to_every_caller() {
    let service = Service::start().await;
    let response = service.send("GET /api/health").await;
    assert!(response.header("x-request-id").is_some());
    let health = response.succeeds(200);
    assert_eq!(health["status"], "ok");
    assert_eq!(health["timestamp"], service.clock.now().to_string());
}

#[tokio::test]
async fn readiness_names_failed_dependencies_and_health_ignores_them() {
    let mut service = Service::with_own_mail().await;
    let ready = service.send("GET /api/readiness").await.succeeds(200);
    assert_eq!(ready, json!({ "status": "ok", "database": "ok" }));

    service.stack().stop_imap().await.unwrap();
    let down = service.send("GET /api/readiness").await.succeeds(503);
    assert_eq!(down["database"], "ok");
    assert_ne!(down["mail"], "ok");
    assert_ne!(down["status"], "ok");
    service.send("GET /api/health").await.succeeds(200);

    service.stack().start_imap().await.unwrap();
    service.send("GET /api/readiness").await.succeeds(200);
}

#[tokio::test]
async fn an_unknown_path_is_404_and_a_known_one_with_another_method_405() {
    let service = Service::with_mail().await;
    for path in [
        "/index.html",
        "/api",
        "/api/v1/mail/folder",
        "/api/v1/mail/folders/",
        "/api/v2/mail/folders",
    ] {
        let response = service.send(&format!("GET {path}")).await;
        assert_eq!(response.status, 404, "{path}");
        assert!(response.json["error"].is_string(), "{path}");
    }
    let response = service.send("DELETE /api/v1/auth/login").await;
    assert_eq!(response.status, 405);
    assert!(response.header("allow").unwrap().contains("POST"));
    assert!(response.json["error"].is_string());
    let response = service.send("POST /api/v1/mail/search").await;
    assert_eq!(response.status, 405);
    assert!(response.header("allow").unwrap().contains("GET"));
}

#[tokio::test]
async fn the_api_description_contains_the_routes_of_the_host_and_the_modules() {
    let service = Service::with_mail().await;
    let description = service.send("GET /api/openapi.json").await.succeeds(200);
    assert_eq!(description["openapi"], "3.1.1");
    assert_eq!(description["info"]["version"], "2.0.0");
    assert_eq!(
        description["x-api-token-scopes"].as_object().unwrap().len(),
        6
    );

    let operation = |path: &str, method: &str| description["paths"][path][method].clone();
    let folders = operation("/api/v1/mail/folders", "get");
    assert_eq!(folders["operationId"], "listFolders");
    assert_eq!(folders["x-required-scope"], "mail:read");
    let logout = operation("/api/v1/auth/logout", "post");
    assert_eq!(logout["security"].as_array().unwrap().len(), 1);
    assert!(logout.get("x-required-scope").is_none());
    for (path, method) in [
        ("/api/health", "get"),
        ("/api/readiness", "get"),
        ("/api/openapi.json", "get"),
        ("/api/v1/auth/login", "post"),
        ("/api/v1/auth/refresh", "post"),
        ("/api/v1/auth/register", "post"),
        ("/api/v1/auth/username-available", "get"),
        ("/api/v1/auth/domains", "get"),
        ("/api/v1/mail/folders/{folder}/messages", "get"),
        ("/api/v1/mail/messages/{uid}", "get"),
    ] {
        assert!(operation(path, method).is_object(), "{method} {path}");
    }
    assert_eq!(dangling(&description), Vec::<String>::new());
}

/// References without a target.
fn dangling(description: &Value) -> Vec<String> {
    fn collect(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member.as_str()) {
                        ("$ref", Some(reference)) => references.push(reference.to_owned()),
                        _ => collect(member, references),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
            _ => {}
        }
    }
    let mut references = Vec::new();
    collect(description, &mut references);
    assert!(!references.is_empty());
    references.retain(|reference| {
        let pointer = reference.trim_start_matches('#');
        description.pointer(pointer).is_none()
    });
    references
}

#[tokio::test]
async fn requests_in_flight_are_finished_when_the_service_stops() {
    let mut service = Service::with_mail().await;
    let address: SocketAddr = service.base.trim_start_matches("http://").parse().unwrap();
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let body = json!({ "email": "nobody@first.test", "password": "x" }).to_string();
    let head = format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&body.as_bytes()[..5]).await.unwrap();
    // The service has the first request's head when it responds to a later request.
    service.send("GET /api/health").await.succeeds(200);
    let (answered, ()) = tokio::join!(
        async {
            client.write_all(&body.as_bytes()[5..]).await.unwrap();
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            response
        },
        service.stop()
    );
    assert!(answered.starts_with("HTTP/1.1 401 "), "{answered}");
}

#[tokio::test]
async fn a_request_id_is_accepted_only_from_a_trusted_proxy() {
    let service = Service::with("http.trusted_proxies = ['127.0.0.1']").await;
    let ask = async |service: &Service, id: &str| {
        Response::of(
            service
                .request("GET /api/health")
                .header("x-request-id", id),
        )
        .await
    };
    let kept = ask(&service, "trace-0017").await;
    assert_eq!(kept.header("x-request-id"), Some("trace-0017"));
    let refused = ask(&service, "a b<script>").await;
    assert_ne!(refused.header("x-request-id"), Some("a b<script>"));

    let open = Service::start().await;
    let own = ask(&open, "trace-0017").await;
    assert!(own.header("x-request-id").is_some_and(|id| id.len() >= 20));
}
