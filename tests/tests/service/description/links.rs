//! Links from a response to the operations that its values can be used for.

use std::collections::BTreeSet;

use latchmail_tests::Service;
use serde_json::{Value, json};

use super::{described, description, operations, resolved};

/// Returns every link: the operation, the status of its response, the link.
fn links(description: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (_, operation) in operations(description) {
        let id = operation["operationId"].as_str().unwrap();
        for (status, response) in operation["responses"].as_object().unwrap() {
            let links = response["links"].as_object().into_iter().flatten();
            all.extend(links.map(|(_, link)| (id.to_owned(), status.clone(), link.clone())));
        }
    }
    all
}

#[tokio::test]
async fn a_link_names_an_operation_and_its_parameters() {
    let description = description().await;
    for (from, _, link) in links(&description) {
        let to = link["operationId"].as_str().unwrap();
        let (_, target) = operations(&description)
            .find(|(_, operation)| operation["operationId"] == to)
            .unwrap_or_else(|| panic!("{from}: {to}"));
        let named: Vec<_> = target["parameters"].as_array().unwrap().iter().collect();
        for name in link["parameters"].as_object().unwrap().keys() {
            let known = |one: &&Value| resolved(&description, one)["name"] == **name;
            assert!(named.iter().any(known), "{from} to {to}: {name}");
        }
    }
}

#[tokio::test]
async fn responses_with_ids_link_to_the_operations_on_them() {
    let description = description().await;
    let all = links(&description).into_iter();
    let all: BTreeSet<_> = all
        .map(|(from, _, link)| (from, link["operationId"].as_str().unwrap().to_owned()))
        .collect();
    for (from, to) in [
        ("createAlias", "updateAlias"),
        ("createAlias", "deleteAlias"),
        ("createToken", "revokeToken"),
        ("createAppPassword", "deleteAppPassword"),
        ("listSessions", "deleteSession"),
        ("listFolders", "listMessages"),
        ("listMessages", "getMessage"),
        ("searchMessages", "getMessage"),
        ("searchMessages", "getThread"),
        ("listThreads", "getThread"),
        ("getThread", "getMessage"),
        ("listChanges", "listChanges"),
        ("getMessage", "getAttachment"),
        ("getMessage", "moveMessage"),
        ("claimDomain", "verifyDomain"),
        ("verifyDomain", "getDomain"),
        ("getDomain", "releaseDomain"),
        ("listTeams", "listMembers"),
        ("listMembers", "addGrant"),
        ("inviteMember", "changeGrant"),
        ("addGrant", "revokeGrant"),
        ("registerClient", "showSignIn"),
        ("beginDevice", "showDevice"),
        ("listModules", "showModule"),
    ] {
        assert!(all.contains(&(from.into(), to.into())), "{from} to {to}");
    }
}

#[tokio::test]
async fn a_link_can_be_followed_to_delete_a_new_resource() {
    let service = Service::start().await;
    let description = described(&service).await;
    let ada = service.person("ada").await;
    for (path, body, parameter) in [
        (
            "/api/v1/aliases",
            json!({ "domain": "first.test" }),
            "deleteAlias",
        ),
        (
            "/api/v1/tokens",
            json!({ "label": "CI", "scopes": ["mail:read"] }),
            "revokeToken",
        ),
        (
            "/api/v1/app-passwords",
            json!({ "label": "phone" }),
            "deleteAppPassword",
        ),
    ] {
        let made = ada.post(path, &body).await.succeeds(201);
        let link = &description["paths"][path]["post"]["responses"]["201"]["links"][parameter];
        let pointer = link["parameters"]["id"].as_str().unwrap();
        let value = made.pointer(pointer.strip_prefix("$response.body#").unwrap());
        let value = value.unwrap().to_string();
        let request = format!("DELETE {path}/{}", value.trim_matches('"'));
        ada.send(&request).await.succeeds(200);
    }
}

#[tokio::test]
async fn a_link_to_a_module_that_is_not_loaded_is_not_described() {
    let service = Service::start().await;
    service
        .operator("module disable aliases", "")
        .await
        .succeeds();
    let description = described(&service).await;
    let left = links(&description);
    assert!(left.iter().any(|(from, ..)| from == "listTeams"));
    assert!(
        left.iter()
            .all(|(_, _, link)| link["operationId"] != "listAliases")
    );
}
