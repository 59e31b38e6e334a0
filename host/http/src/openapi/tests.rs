use super::*;
use crate::testing::{part, route};

fn document(parts: &[Part<()>]) -> Value {
    let about = About {
        title: "Latchmail".into(),
        base_url: "https://a.example".into(),
        agents_send: false,
        auth_url: "https://b.example".into(),
    };
    serde_json::from_slice(&compose(&about, parts).unwrap()).unwrap()
}

fn refusal(parts: &[Part<()>]) -> String {
    compose(&About::default(), parts).unwrap_err().to_string()
}

fn with_access(path: &str, access: Access) -> Route {
    Route {
        access,
        ..route("GET", path)
    }
}

#[test]
fn it_says_what_it_is_and_what_the_scopes_are() {
    let document = document(&[]);
    assert_eq!(document["openapi"], "3.1.1");
    assert_eq!(document["info"]["version"], "2.0.0");
    assert_eq!(document["servers"][0]["url"], "https://a.example");
    let scopes = document["x-api-token-scopes"].as_object().unwrap();
    assert_eq!(scopes.len(), 6);
    assert!(scopes["mail:read"].as_str().unwrap().contains("read"));
}

#[test]
fn security_follows_from_the_route() {
    let scoped = |scope, oauth| Access::Scoped { scope, oauth };
    let document = document(&[part(
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

fn responses(part: Part<()>, path: &str) -> Value {
    document(&[part])["paths"][path]["get"]["responses"].clone()
}

#[test]
fn failures_of_the_pipeline_do_not_replace_an_operations_own() {
    let mut part = part("module x", vec![with_access("/a/{b}", Access::Session)]);
    part.description["paths"]["/a/{b}"]["get"]["responses"]["401"] = json!({
        "description": "own",
        "headers": { "WWW-Authenticate": { "description": "own" } },
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    });
    let responses = responses(part, "/a/{b}");
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
fn an_operation_without_a_credential_and_a_limit_has_no_401_and_no_429() {
    let responses = responses(part("the host", vec![route("GET", "/a")]), "/a");
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
fn a_failure_with_another_body_can_also_be_an_error() {
    let mut part = part("module x", vec![route("GET", "/a")]);
    let own = &mut part.description["paths"]["/a"]["get"]["responses"];
    own["400"] = json!({ "content": { "text/html": {} } });
    own["500"] = json!({ "content": { "application/json": { "schema": { "type": "array" } } } });
    own["503"] = json!({ "content": { "application/json": "not a media type" } });
    own["418"] = json!({ "content": { "text/html": {} } });
    let responses = responses(part, "/a");
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
fn parameters_are_limited_to_what_the_pipeline_accepts() {
    let mut part = part("module x", vec![route("GET", "/a/{b}")]);
    let parameter = |name: &str, place: &str, schema: Value| json!({ "name": name, "in": place, "schema": schema });
    part.description["paths"]["/a/{b}"]["get"]["parameters"] = json!([
        parameter("b", "path", json!({ "type": "string" })),
        parameter("c", "query", json!({ "type": ["string", "null"] })),
        parameter("d", "query", json!({ "type": "string", "pattern": "^d$" })),
        parameter("e", "query", json!({ "type": "integer" })),
        parameter("f", "header", json!({ "type": "string" })),
    ]);
    let document = document(&[part]);
    let parameters = document["paths"]["/a/{b}"]["get"]["parameters"].as_array();
    let patterns = parameters.unwrap().iter();
    let patterns: Vec<_> = patterns
        .map(|one| one["schema"]["pattern"].as_str())
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
fn a_link_to_an_operation_that_is_not_there_is_left_out() {
    let mut part = part("module x", vec![route("GET", "/a"), route("GET", "/b")]);
    let operation = part.routes[1].0.operation.clone();
    part.description["paths"]["/a"]["get"]["responses"]["200"]["links"] = json!({
        "here": { "operationId": operation },
        "lost": { "operationId": "lost" },
    });
    let links = &responses(part, "/a")["200"]["links"];
    assert!(links.get("here").is_some() && links.get("lost").is_none());
}

#[test]
fn identical_components_merge_and_different_ones_are_refused() {
    let with = |owner: &str, path: &str, folder: Value| {
        let mut part = part(owner, vec![route("GET", path)]);
        part.description["components"] = json!({ "schemas": { "Folder": folder } });
        part
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
    let sentence = refusal(&other);
    assert!(
        sentence.contains("module x and module y describe `#/components/schemas/Folder`"),
        "{sentence}"
    );
}

#[test]
fn routes_and_description_must_be_the_same() {
    let mut lacking = part("module x", vec![route("GET", "/a")]);
    lacking.description = json!({});
    assert!(refusal(&[lacking]).contains("lacks its route GET /a"));
    let mut more = part("module x", vec![route("GET", "/a")]);
    more.description["paths"]["/a"]["post"] = json!({});
    assert!(refusal(&[more]).contains("contains POST /a, which is not one of its routes"));
    let mut renamed = part("module x", vec![route("GET", "/a")]);
    renamed.description["paths"]["/a"]["get"]["operationId"] = "other".into();
    assert!(refusal(&[renamed]).contains("\"other\""));
}

#[test]
fn a_reference_that_leads_nowhere_is_refused() {
    let mut part = part("module x", vec![route("GET", "/a")]);
    part.description["paths"]["/a"]["get"]["responses"]["200"] =
        json!({ "$ref": "#/components/responses/Lost" });
    assert!(refusal(&[part]).contains("`#/components/responses/Lost`"));
}

#[test]
fn two_owners_may_share_a_path_with_parameters_of_their_own() {
    let mut x = part("module x", vec![route("GET", "/a/{id}")]);
    x.description["paths"]["/a/{id}"]["parameters"] = json!([{ "name": "id", "in": "path" }]);
    let y = part("module y", vec![route("POST", "/a/{id}")]);
    let document = document(&[x, y]);
    let path = &document["paths"]["/a/{id}"];
    assert_eq!(path["get"]["parameters"][0]["name"], "id");
    assert!(path["post"].get("parameters").is_none());
    assert!(path.get("parameters").is_none());
}

#[test]
fn what_a_handler_tells_rusts_readers_is_left_out() {
    let mut part = part("the host", vec![route("GET", "/a")]);
    part.description["paths"]["/a"]["get"]["description"] = "Does it.\n\n# Errors\n401".into();
    let document = document(&[part]);
    assert_eq!(document["paths"]["/a"]["get"]["description"], "Does it.");
}
