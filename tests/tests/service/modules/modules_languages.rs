//! A module is defined by its contract, in any language: the aliases module in JavaScript and
//! Python beside the one in Rust. `./just test` also runs its route tests with each of them
//! (`LATCHMAIL_TEST_ALIASES`).

use latchmail_tests::{Service, examples, modules};
use serde_json::{Value, json};

const FOREIGN: [&str; 2] = ["aliases-js.wasm", "aliases-py.wasm"];

/// Returns the API description of a service whose aliases module is this file, with line breaks in
/// texts removed and numbers in one representation.
async fn description(source: &std::path::Path) -> Value {
    let settings = format!("modules.aliases.source = '{}'", source.display());
    let service = Service::with(&settings).await;
    let text = service.send("GET /api/openapi.json").await.succeeds(200);
    plain(text)
}

fn plain(value: Value) -> Value {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
        Value::Number(number) => number.as_f64().into(),
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::Object(members) => members.into_iter().map(|(k, v)| (k, plain(v))).collect(),
        other => other,
    }
}

#[tokio::test]
async fn the_api_description_is_equal_in_every_language() {
    let rust = description(&modules().join("latchmail_aliases.wasm")).await;
    for file in FOREIGN {
        let other = description(&examples().join(file)).await;
        for (path, described) in rust["paths"].as_object().unwrap() {
            assert_eq!(&other["paths"][path], described, "{file}: {path}");
        }
        let schemas = rust["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            let described = &other["components"]["schemas"][name];
            assert_eq!(described, schema, "{file}: {name}");
        }
        assert_eq!(other, rust, "{file}");
    }
}

#[tokio::test]
async fn an_interpreter_can_serve_each_request_in_a_fresh_sandbox() {
    for file in FOREIGN {
        let source = examples().join(file);
        let settings = format!(
            "modules.aliases.source = '{}'\nmodules.aliases.reuse = false",
            source.display()
        );
        let service = Service::with(&settings).await;
        let ada = service.person("ada").await;
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..5 {
            let body = json!({ "domain": "first.test" });
            let made = ada.post("/api/v1/aliases", &body).await.succeeds(201);
            names.insert(made["alias"].as_str().unwrap().to_owned());
        }
        // Random values differ between sandboxes, although all sandboxes start from the same state.
        assert_eq!(names.len(), 5, "{file}: {names:?}");
        let list = ada.send("GET /api/v1/aliases").await.succeeds(200);
        assert_eq!(list["aliases"].as_array().unwrap().len(), 5, "{file}");
    }
}
