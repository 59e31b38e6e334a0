//! The links from responses to other operations.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::Paths;

/// Removes links to operations that the API description does not contain. A module can link to an
/// operation of a module that is not loaded.
pub(super) fn remove_dangling(paths: &mut Paths) {
    let operations = paths.values().flat_map(Map::values);
    let known: BTreeSet<String> = operations
        .filter_map(|operation| operation.get("operationId")?.as_str())
        .map(ToOwned::to_owned)
        .collect();
    let has_target = |link: &Value| {
        let id = link.get("operationId").and_then(Value::as_str);
        id.is_none_or(|id| known.contains(id))
    };
    for operation in paths.values_mut().flat_map(Map::values_mut) {
        let responses = operation
            .get_mut("responses")
            .and_then(Value::as_object_mut);
        for response in responses.into_iter().flat_map(Map::values_mut) {
            let links = response.get_mut("links").and_then(Value::as_object_mut);
            if let Some(links) = links {
                links.retain(|_, link| has_target(link));
            }
        }
    }
}
