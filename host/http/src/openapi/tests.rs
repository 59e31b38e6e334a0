use latchmail_runtime::modules::{Access, Route};
use serde_json::Value;

use super::*;
use crate::testing::{group, route};

fn document(groups: &[RouteGroup<()>]) -> Value {
    let info = ApiInfo {
        title: "Latchmail".into(),
        base_url: "https://a.example".into(),
        agents_send: false,
        auth_url: "https://b.example".into(),
    };
    serde_json::from_slice(&compose(&info, groups).unwrap()).unwrap()
}

fn error(groups: &[RouteGroup<()>]) -> String {
    compose(&ApiInfo::default(), groups)
        .unwrap_err()
        .to_string()
}

fn with_access(path: &str, access: Access) -> Route {
    Route {
        access,
        ..route("GET", path)
    }
}

#[test]
fn the_description_contains_the_version_the_url_and_the_scopes() {
    let document = document(&[]);
    assert_eq!(document["openapi"], "3.1.1");
    assert_eq!(document["info"]["version"], "2.0.0");
    assert_eq!(document["servers"][0]["url"], "https://a.example");
    let scopes = document["x-api-token-scopes"].as_object().unwrap();
    assert_eq!(scopes.len(), 6);
    assert!(scopes["mail:read"].as_str().unwrap().contains("read"));
}

#[test]
fn the_security_of_an_operation_follows_from_the_access_of_its_route() {
    let scoped = |scope, oauth| Access::Scoped { scope, oauth };
    let document = document(&[group(
        "module x",
        vec![
            with_access("/public", Access::Public),
            with_access("/session", Access::Session),
            with_access("/read", scoped(Scope::MailRead, true)),
            with_access("/send", scoped(Scope::MailSend, true)),
            with_access("/agent", Access::OAuth),
        ],
    )]);
    let operation = |path: &str| document["paths"][path]["get"].clone();
    assert_eq!(operation("/public")["security"], json!([]));
    assert_eq!(
        operation("/session")["security"],
        json!([{ "session": [] }])
    );
    assert!(operation("/session").get("x-required-scope").is_none());
    assert_eq!(
        operation("/read")["security"],
        json!([{ "session": [] }, { "apiToken": [] }, { "oauth": [] }])
    );
    assert_eq!(operation("/read")["x-required-scope"], "mail:read");
    let mailbox = json!([{ "$ref": "#/components/parameters/mailbox" }]);
    assert_eq!(operation("/read")["parameters"], mailbox);
    assert!(operation("/session").get("parameters").is_none());
    assert_eq!(
        operation("/send")["security"],
        json!([{ "session": [] }, { "apiToken": [] }])
    );
    assert_eq!(operation("/agent")["security"], json!([{ "oauth": [] }]));
    let schemes = &document["components"]["securitySchemes"];
    for scheme in ["session", "apiToken", "oauth"] {
        assert!(schemes[scheme].is_object(), "{scheme}");
    }
}

fn responses(group: RouteGroup<()>, path: &str) -> Value {
    document(&[group])["paths"][path]["get"]["responses"].clone()
}

#[test]
fn errors_of_the_pipeline_do_not_replace_responses_of_the_operation() {
    let mut group = group("module x", vec![with_access("/a/{b}", Access::Session)]);
    group.description["paths"]["/a/{b}"]["get"]["responses"]["401"] = json!({
        "description": "own",
        "headers": { "WWW-Authenticate": { "description": "own" } },
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    });
    let responses = responses(group, "/a/{b}");
    assert_eq!(responses["401"]["description"], "own");
    let headers = &responses["401"]["headers"];
    assert_eq!(headers["WWW-Authenticate"]["description"], "own");
    assert!(headers["X-RateLimit-Limit"].is_object());
    let schema = &responses["401"]["content"]["application/json"]["schema"];
    assert_eq!(*schema, json!({ "$ref": "#/components/schemas/Error" }));
    for status in [
        "200", "400", "403", "405", "408", "413", "414", "429", "431", "500", "501", "503",
    ] {
        assert!(responses[status].is_object(), "{status}");
    }
    assert!(responses.get("404").is_none());
}

#[test]
fn a_public_operation_without_a_rate_limit_has_no_401_and_no_429() {
    let responses = responses(group("the host", vec![route("GET", "/a")]), "/a");
    for status in ["401", "404", "429"] {
        assert!(responses.get(status).is_none(), "{status}");
    }
    assert!(
        responses["200"]["headers"]
            .get("X-RateLimit-Limit")
            .is_none()
    );
    assert!(responses["200"]["headers"]["X-Request-Id"].is_object());
}

#[test]
fn the_error_schema_is_added_to_described_error_responses() {
    let mut group = group("module x", vec![route("GET", "/a")]);
    let own = &mut group.description["paths"]["/a"]["get"]["responses"];
    own["400"] = json!({ "content": { "text/html": {} } });
    own["500"] = json!({ "content": { "application/json": { "schema": { "type": "array" } } } });
    own["503"] = json!({ "content": { "application/json": "not a media type" } });
    own["418"] = json!({ "content": { "text/html": {} } });
    let responses = responses(group, "/a");
    let error = json!({ "$ref": "#/components/schemas/Error" });
    let page = &responses["400"]["content"];
    assert!(page["text/html"].is_object());
    assert_eq!(page["application/json"]["schema"], error);
    assert_eq!(
        responses["500"]["content"]["application/json"]["schema"],
        json!({ "anyOf": [{ "type": "array" }, error] })
    );
    assert!(
        responses["418"]["content"]
            .get("application/json")
            .is_none()
    );
}

#[test]
fn parameters_are_restricted_to_values_that_the_pipeline_accepts() {
    let mut group = group("module x", vec![route("GET", "/a/{b}")]);
    let parameter = |name: &str, location: &str, schema: Value| json!({ "name": name, "in": location, "schema": schema });
    group.description["paths"]["/a/{b}"]["get"]["parameters"] = json!([
        parameter("b", "path", json!({ "type": "string" })),
        parameter("c", "query", json!({ "type": ["string", "null"] })),
        parameter("d", "query", json!({ "type": "string", "pattern": "^d$" })),
        parameter("e", "query", json!({ "type": "integer" })),
        parameter("f", "header", json!({ "type": "string" })),
    ]);
    let document = document(&[group]);
    let parameters = document["paths"]["/a/{b}"]["get"]["parameters"].as_array();
    let patterns = parameters.unwrap().iter();
    let patterns: Vec<_> = patterns
        .map(|parameter| parameter["schema"]["pattern"].as_str())
        .collect();
    assert_eq!(
        patterns,
        [
            Some(r"^[^\u0000]+$"),
            Some(r"^[^\u0000]*$"),
            Some("^d$"),
            None,
            None
        ]
    );
}

#[test]
fn links_to_unknown_operations_are_removed() {
    let mut group = group("module x", vec![route("GET", "/a"), route("GET", "/b")]);
    let operation = group.routes[1].0.operation.clone();
    group.description["paths"]["/a"]["get"]["responses"]["200"]["links"] = json!({
        "valid": { "operationId": operation },
        "dangling": { "operationId": "unknown" },
    });
    let links = &responses(group, "/a")["200"]["links"];
    assert!(links.get("valid").is_some() && links.get("dangling").is_none());
}

#[test]
fn equal_components_are_merged_and_different_ones_are_rejected() {
    let with = |owner: &str, path: &str, folder: Value| {
        let mut group = group(owner, vec![route("GET", path)]);
        group.description["components"] = json!({ "schemas": { "Folder": folder } });
        group
    };
    let same = [
        with("module x", "/x", json!({ "type": "object" })),
        with("module y", "/y", json!({ "type": "object" })),
    ];
    assert_eq!(
        document(&same)["components"]["schemas"]["Folder"]["type"],
        "object"
    );
    let other = [
        with("module x", "/x", json!({ "type": "object" })),
        with("module y", "/y", json!({ "type": "string" })),
    ];
    let message = error(&other);
    assert!(
        message.contains("module x and module y describe `#/components/schemas/Folder`"),
        "{message}"
    );
}

#[test]
fn the_description_must_match_the_routes() {
    let mut missing = group("module x", vec![route("GET", "/a")]);
    missing.description = json!({});
    assert!(error(&[missing]).contains("does not contain the route GET /a"));
    let mut additional = group("module x", vec![route("GET", "/a")]);
    additional.description["paths"]["/a"]["post"] = json!({});
    assert!(error(&[additional]).contains("contains POST /a, which is not a route of module x"));
    let mut renamed = group("module x", vec![route("GET", "/a")]);
    renamed.description["paths"]["/a"]["get"]["operationId"] = "other".into();
    assert!(error(&[renamed]).contains("\"other\""));
}

#[test]
fn a_reference_without_a_target_is_rejected() {
    let mut group = group("module x", vec![route("GET", "/a")]);
    group.description["paths"]["/a"]["get"]["responses"]["200"] =
        json!({ "$ref": "#/components/responses/Missing" });
    assert!(error(&[group]).contains("`#/components/responses/Missing`"));
}

#[test]
fn two_owners_can_share_a_path_with_different_parameters() {
    let mut x = group("module x", vec![route("GET", "/a/{id}")]);
    x.description["paths"]["/a/{id}"]["parameters"] = json!([{ "name": "id", "in": "path" }]);
    let y = group("module y", vec![route("POST", "/a/{id}")]);
    let document = document(&[x, y]);
    let path = &document["paths"]["/a/{id}"];
    assert_eq!(path["get"]["parameters"][0]["name"], "id");
    assert!(path["post"].get("parameters").is_none());
    assert!(path.get("parameters").is_none());
}

#[test]
fn the_errors_section_of_a_doc_comment_is_removed() {
    let mut group = group("the host", vec![route("GET", "/a")]);
    group.description["paths"]["/a"]["get"]["description"] = "Reads a.\n\n# Errors\n401".into();
    let document = document(&[group]);
    assert_eq!(document["paths"]["/a"]["get"]["description"], "Reads a.");
}

#[test]
fn error_codes_are_listed_with_those_that_modules_declare() {
    let declaring = |codes: Value| {
        let mut group = group("module x", vec![]);
        group.description["x-error-codes"] = codes;
        group
    };
    let document = document(&[declaring(json!(["label_exists", "folder_not_found"]))]);
    let schema = &document["components"]["schemas"]["Error"];
    assert_eq!(schema["required"], json!(["error", "code"]));
    let listed = schema["properties"]["code"]["enum"].as_array().unwrap();
    let count = |code: &str| listed.iter().filter(|one| *one == code).count();
    assert_eq!((count("label_exists"), count("folder_not_found")), (1, 1));
    let malformed = error(&[declaring(json!(["Label exists"]))]);
    assert!(
        malformed.contains("Label exists") && malformed.contains("module x"),
        "{malformed}"
    );
}
