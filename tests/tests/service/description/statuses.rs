//! Every status that an operation can return is described with its headers, its media types and the
//! schema of its body.

use latchmail_tests::{Response, Service};
use serde_json::{Value, json};

use super::{described, description, operations, resolved};

/// Failures of the request pipeline that any operation can return, with their headers.
const ALWAYS: [(&str, &[&str]); 11] = [
    ("400", &[]),
    ("403", &[]),
    ("405", &["Allow"]),
    ("408", &[]),
    ("413", &[]),
    ("414", &[]),
    ("431", &[]),
    ("500", &[]),
    ("501", &[]),
    ("503", &["Retry-After"]),
    (
        "429",
        &[
            "Retry-After",
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
        ],
    ),
];

/// Operations whose requests the pipeline does not count: these have no limit, and pages count
/// themselves.
const UNCOUNTED: [&str; 14] = [
    "GET /",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
    "GET /api/health",
    "GET /api/openapi.json",
    "GET /device",
    "GET /docs",
    "GET /docs/redoc.js",
    "GET /docs/{page}",
    "GET /llms.txt",
    "GET /login",
    "POST /device",
    "POST /login",
];

/// Returns whether the schema is the error schema, or one of its alternatives is.
fn is_error(schema: &Value) -> bool {
    let error = json!({ "$ref": "#/components/schemas/Error" });
    let one_of = |schemas: &Value| schemas.as_array().is_some_and(|all| all.contains(&error));
    *schema == error || one_of(&schema["anyOf"])
}

#[tokio::test]
async fn every_operation_describes_the_failures_of_any_request() {
    let description = description().await;
    let mut missing = Vec::new();
    for (name, operation) in operations(&description) {
        let mut statuses = ALWAYS.to_vec();
        if operation["security"] != json!([]) {
            statuses.push(("401", &["WWW-Authenticate"]));
        }
        for (status, headers) in statuses {
            if status == "429" && UNCOUNTED.contains(&&*name) {
                continue;
            }
            let response = resolved(&description, &operation["responses"][status]);
            let described = headers.iter().all(|header| {
                let header = resolved(&description, &response["headers"][header]);
                header["schema"].is_object()
            });
            if !described || !is_error(&response["content"]["application/json"]["schema"]) {
                missing.push(format!("{name}: {status}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Checks that the status, the media type and the headers of a response are described for the
/// operation.
#[track_caller]
fn is_described(description: &Value, operation: (&str, &str), answer: &Response, status: u16) {
    assert_eq!(answer.status, status, "{operation:?}: {}", answer.json);
    let (method, path) = operation;
    let response = &description["paths"][path][method]["responses"][status.to_string()];
    let response = resolved(description, response);
    let media = answer.header("content-type").unwrap();
    let media = media.split(';').next().unwrap();
    let content = &response["content"][media];
    assert!(content.is_object(), "{operation:?} {status}: {media}");
    if media == "application/json" {
        assert!(
            answer.json["error"].is_string() && is_error(&content["schema"]),
            "{operation:?} {status}"
        );
    }
    for header in [
        "WWW-Authenticate",
        "Allow",
        "Retry-After",
        "X-RateLimit-Limit",
        "X-Request-Id",
    ] {
        if answer.header(header).is_some() {
            assert!(
                response["headers"][header].is_object(),
                "{operation:?} {status}: {header}"
            );
        }
    }
}

#[tokio::test]
async fn failures_before_a_handler_are_as_described() {
    let service = Service::with("limits.public = 1").await;
    let description = described(&service).await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let token = token["token"].as_str().unwrap();

    let aliases = ("get", "/api/v1/aliases");
    let bad = ada.send("GET /api/v1/aliases?x=%FF").await;
    is_described(&description, aliases, &bad, 400);
    let anonymous = service.send("GET /api/v1/aliases").await;
    is_described(&description, aliases, &anonymous, 401);
    let narrow = service.with_bearer("GET /api/v1/aliases", token).await;
    is_described(&description, aliases, &narrow, 403);
    let foreign = ada.send("GET /api/v1/aliases?mailbox=unknown").await;
    is_described(&description, aliases, &foreign, 404);
    let wrong = ada.send("PUT /api/v1/aliases").await;
    is_described(&description, aliases, &wrong, 405);
    let large = service
        .request("GET /api/v1/aliases")
        .bearer_auth(&ada.access)
        .body("{}");
    is_described(&description, aliases, &Response::of(large).await, 413);
    let folders = ada.send("GET /api/v1/mail/folders").await;
    is_described(&description, ("get", "/api/v1/mail/folders"), &folders, 503);

    let worker = service
        .request("GET /api/health")
        .header("Service-Worker", "script");
    is_described(
        &description,
        ("get", "/api/health"),
        &Response::of(worker).await,
        403,
    );
    let domains = ("get", "/api/v1/auth/domains");
    service.send("GET /api/v1/auth/domains").await.succeeds(200);
    let limited = service.send("GET /api/v1/auth/domains").await;
    is_described(&description, domains, &limited, 429);
}

#[tokio::test]
async fn pages_are_described_with_their_failures() {
    // Each request is counted, also an invalid one.
    let service = Service::with("limits.oauth = 5").await;
    let description = described(&service).await;
    for (path, query, status) in [
        ("/login", "", 400),
        ("/login", "?x=%FF", 400),
        ("/device", "?x=%FF", 400),
        ("/device", "", 200),
        ("/device", "", 200),
        ("/device", "", 429),
        ("/login", "", 429),
    ] {
        let answer = service.send(&format!("GET {path}{query}")).await;
        is_described(&description, ("get", path), &answer, status);
    }
}
