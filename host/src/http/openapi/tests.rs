use super::*;
use crate::http::testing::{part, route};

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

#[test]
fn shared_failures_do_not_replace_an_operations_own() {
    let mut part = part("module x", vec![with_access("/a/{b}", Access::Session)]);
    part.description["paths"]["/a/{b}"]["get"]["responses"]["401"] =
        json!({ "description": "own" });
    let responses = &document(&[part])["paths"]["/a/{b}"]["get"]["responses"];
    assert_eq!(responses["401"]["description"], "own");
    for status in ["200", "400", "403", "500", "503"] {
        assert!(responses[status].is_object(), "{status}");
    }
    assert!(responses.get("429").is_none(), "it has no limit");
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
        sentence.contains("module x and module y both describe `#/components/schemas/Folder`"),
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
    assert!(refusal(&[more]).contains("has POST /a, which is no route of it"));
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
