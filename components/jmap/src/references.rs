//! References to the results of earlier calls (RFC 8620, section 3.7).

use serde_json::Value;

use crate::args::Object;
use crate::error::MethodError;

/// The maximum number of values to which a reference resolves.
const MAX_VALUES: usize = 10_000;

/// The result of an earlier call: the name of the response, the response, and the id of the call.
pub(crate) type Response = (String, Value, String);

/// Replaces the arguments that are references.
pub(crate) fn resolve(args: &mut Object, responses: &[Response]) -> Result<(), MethodError> {
    let names: Vec<String> = args
        .keys()
        .filter(|name| name.starts_with('#'))
        .cloned()
        .collect();
    for reference in names {
        let name = &reference[1..];
        if args.contains_key(name) {
            let text = format!("{name} is given twice");
            return Err(MethodError::invalid(text));
        }
        let value = args.remove(&reference).unwrap_or_default();
        let found = find(&value, responses).ok_or(MethodError::new("invalidResultReference"))?;
        args.insert(name.into(), found);
    }
    Ok(())
}

/// Returns the value to which a reference refers.
fn find(reference: &Value, responses: &[Response]) -> Option<Value> {
    let field = |name: &str| reference.get(name)?.as_str();
    let (of, name, path) = (field("resultOf")?, field("name")?, field("path")?);
    let (found, response, _) = responses.iter().find(|(_, _, call)| call == of)?;
    if found != name {
        return None;
    }
    let mut count = 0;
    evaluate(response, path, &mut count)
}

/// Evaluates a JSON pointer (RFC 6901) in which `*` stands for all entries of an array.
fn evaluate(value: &Value, path: &str, count: &mut usize) -> Option<Value> {
    if path.is_empty() {
        *count += value.as_array().map_or(1, Vec::len);
        return (*count <= MAX_VALUES).then(|| value.clone());
    }
    let path = path.strip_prefix('/')?;
    let (token, rest) = match path.find('/') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    match value {
        Value::Array(entries) if token == "*" => {
            let mut all = Vec::new();
            for entry in entries {
                match evaluate(entry, rest, count)? {
                    Value::Array(inner) => all.extend(inner),
                    one => all.push(one),
                }
            }
            Some(all.into())
        }
        Value::Array(entries) => {
            let is_index = token == "0" || !token.starts_with(['0', '+']);
            let index = token.parse::<usize>().ok().filter(|_| is_index)?;
            evaluate(entries.get(index)?, rest, count)
        }
        Value::Object(members) => {
            let token = token.replace("~1", "/").replace("~0", "~");
            evaluate(members.get(&token)?, rest, count)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(reference: Value) -> Result<Value, MethodError> {
        let responses = [(
            "Email/get".to_owned(),
            json!({
                "ids": ["1", "2"],
                "list": [
                    { "threadId": "a", "to": [{ "email": "x" }, { "email": "y" }] },
                    { "threadId": "b", "to": [{ "email": "z" }] },
                ],
                "a/b": 1,
            }),
            "c1".to_owned(),
        )];
        let mut args = Object::new();
        args.insert("#ids".into(), reference);
        resolve(&mut args, &responses)?;
        Ok(args.remove("ids").unwrap())
    }

    fn reference(path: &str) -> Value {
        json!({ "resultOf": "c1", "name": "Email/get", "path": path })
    }

    #[test]
    fn a_reference_is_replaced_by_its_value() {
        for (path, value) in [
            ("/ids", json!(["1", "2"])),
            ("/ids/1", json!("2")),
            ("/list/*/threadId", json!(["a", "b"])),
            ("/list/*/to/*/email", json!(["x", "y", "z"])),
            ("/list/0/to/*/email", json!(["x", "y"])),
            ("/a~1b", json!(1)),
        ] {
            assert_eq!(resolved(reference(path)), Ok(value), "{path}");
        }
    }

    #[test]
    fn a_reference_without_a_value_is_an_error() {
        for reference in [
            reference("/nothing"),
            reference("ids"),
            reference("/ids/01"),
            reference("/ids/9"),
            json!({ "resultOf": "c2", "name": "Email/get", "path": "/ids" }),
            json!({ "resultOf": "c1", "name": "Email/query", "path": "/ids" }),
            json!(7),
        ] {
            let error = resolved(reference.clone()).unwrap_err();
            assert_eq!(error.kind(), "invalidResultReference", "{reference}");
        }
    }
}
