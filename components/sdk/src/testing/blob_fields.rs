//! Blob fields. A blob field is a base64 field of a JSON body. The host decodes the field and
//! stores the bytes outside the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_shape::codes;
use serde_json::Value;

use crate::capability::Blob;
use crate::failure::Failure;

/// Decodes the fields at these JSON pointers. In a pointer, `*` matches any array index. Replaces
/// each field with the index of its value. Returns the values in the order of the pointers.
pub(super) fn take(body: &mut Value, pointers: &[String]) -> Result<Vec<Blob>, Failure> {
    let mut found = Vec::new();
    for pointer in pointers {
        let steps: Vec<&str> = pointer.split('/').skip(1).collect();
        descend(body, &steps, &mut found)?;
    }
    Ok(found)
}

fn descend(value: &mut Value, steps: &[&str], found: &mut Vec<Blob>) -> Result<(), Failure> {
    let Some((step, rest)) = steps.split_first() else {
        let refused =
            || Failure::bad_request(codes::INVALID_BASE64, "A file must be a string of base64");
        let text = value.as_str().ok_or_else(refused)?;
        let bytes = STANDARD.decode(text).map_err(|_| refused())?;
        *value = found.len().into();
        found.push(Blob::Bytes(bytes));
        return Ok(());
    };
    match value {
        Value::Array(values) if *step == "*" => values
            .iter_mut()
            .try_for_each(|value| descend(value, rest, found)),
        Value::Object(fields) => match fields.get_mut(*step) {
            Some(value) => descend(value, rest, found),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_standard_base64_is_decoded() {
        for (text, bytes) in [("", ""), ("TQ==", "M"), ("TWE=", "Ma"), ("TWFu", "Man")] {
            let found = take(&mut json!({ "x": text }), &["/x".into()]).unwrap();
            assert!(matches!(&*found, [Blob::Bytes(found)] if found == bytes.as_bytes()));
        }
        for bad in ["T", "TQ", "TQ=", "T===", "T-W_", "TWE= "] {
            let found = take(&mut json!({ "x": bad }), &["/x".into()]);
            assert!(found.is_err(), "{bad}");
        }
    }

    #[test]
    fn a_blob_field_is_replaced_by_its_index() {
        let mut body = json!({ "files": [{ "content": "TQ==" }, { "content": "TWE=" }, {}] });
        let found = take(&mut body, &["/files/*/content".into()]).unwrap();
        assert_eq!(found.len(), 2);
        let expected = json!({ "files": [{ "content": 0 }, { "content": 1 }, {}] });
        assert_eq!(body, expected);
        assert!(take(&mut json!({ "x": 7 }), &["/x".into()]).is_err());
    }
}
