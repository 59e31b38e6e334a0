//! What operator tokens can use. The routes come from the API description of the listener.

use latchmail_core::caller::OperatorScope;
use latchmail_runtime::modules::Access;
use latchmail_tests::{DOMAIN, Person, Response, Setup};
use serde_json::Value;

use super::{ALL, LISTEN, Program, service, text};

/// Returns the routes of the description, each with its scope. The description itself is public.
async fn routes(program: &Program) -> Vec<(String, String, OperatorScope)> {
    let description = program.get("/admin/api/v1/openapi.json").await;
    let mut routes = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = &operation["x-required-scope"];
            if path.ends_with("/openapi.json") {
                assert!(scope.is_null());
                continue;
            }
            let scope = OperatorScope::named(text(scope)).unwrap();
            assert_eq!(
                operation["security"][0]["operatorToken"],
                serde_json::json!([])
            );
            routes.push((method.to_uppercase(), path.clone(), scope));
        }
    }
    assert!(routes.len() > 35, "{routes:?}");
    routes
}

/// Returns the path of a route for an account, a grant or another object.
fn filled(path: &str, id: &str) -> String {
    path.replace("{id}", id)
        .replace("{grant}", "none")
        .replace("{domain}", DOMAIN)
        .replace("{name}", "none")
}

#[tokio::test]
async fn a_token_has_access_to_the_routes_of_its_scopes_only() {
    let service = service().await;
    let mut programs = Vec::new();
    for scope in OperatorScope::ALL {
        let name = scope.name().replace(':', "-");
        programs.push((scope, Program::new(&service, &name, scope.name()).await));
    }
    let routes = routes(&programs[0].1).await;
    for (method, path, scope) in &routes {
        let line = format!("{method} {}", filled(path, "none"));
        for (held, program) in &programs {
            let response = program.send(&line).await;
            let refused = matches!(response.status, 401 | 403);
            assert_eq!(refused, held != scope, "{held}: {line}: {}", response.json);
        }
        let request = programs[0].1.client.request(
            method.parse().unwrap(),
            format!("{}{}", programs[0].1.base, filled(path, "none")),
        );
        assert_eq!(Response::of(request).await.status, 401, "{line}");
    }
}

#[tokio::test]
async fn a_token_opens_no_route_of_the_main_listener() {
    let service = service().await;
    let program = Program::new(&service, "all", ALL).await;
    for (method, path, access) in service.routes() {
        if access == Access::Public {
            continue;
        }
        let line = format!("{method} {}", filled(&path, "none").replace("{uid}", "1"));
        let response = service.with_bearer(&line, &program.token).await;
        assert_eq!(response.status, 401, "{line}: {}", response.json);
    }
    // Nor does the listener of the operator accept another credential.
    let ada = service.person("ada").await;
    for token in [&ada.access, text(&ada.token(&["mail:read"]).await["token"])] {
        let request = program
            .client
            .get(format!("{}/admin/api/v1/accounts", program.base));
        let refused = Response::of(request.bearer_auth(token)).await;
        assert_eq!(refused.status, 401, "{}", refused.json);
    }
}

#[tokio::test]
async fn no_response_contains_anything_of_a_message() {
    let service = Setup::default().with(LISTEN).with_mail().start().await;
    let ada: Person<'_> = service.person("ada").await;
    let message = "From: Grace <grace@secret-correspondent.test>\nSubject: Secret subject 7141\n\nSecret body 7142\n";
    ada.receive(message).await;
    ada.wait_for_message("Secret subject 7141").await;
    let program = Program::new(&service, "all", ALL).await;
    let found = program.get("/admin/api/v1/accounts").await;
    let id = text(&found["accounts"][0]["id"]).to_owned();
    for (method, path, _) in routes(&program).await {
        // The other methods would delete the account before all routes have been tried.
        if method != "GET" && !path.ends_with(".search") {
            continue;
        }
        let line = format!("{method} {}", filled(&path, &id));
        let response = match method.as_str() {
            "GET" => program.send(&line).await,
            _ => {
                program
                    .send_json(&line, &Value::Object(serde_json::Map::new()))
                    .await
            }
        };
        let body = String::from_utf8_lossy(&response.body);
        for secret in ["7141", "7142", "secret-correspondent"] {
            assert!(!body.contains(secret), "{line}: {body}");
        }
    }
    let holds = program.get("/admin/api/v1/holds").await;
    assert_eq!(holds, serde_json::json!({ "pending": 0 }));
}
