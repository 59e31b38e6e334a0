//! Blob fields. A blob field is a base64 field of a JSON body. The host decodes the field and
//! stores the bytes outside the body.

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
        let refused = || Failure::bad_request("A file must be a string of base64");
        let bytes = value.as_str().and_then(base64).ok_or_else(refused)?;
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

/// Decodes standard base64 with padding (RFC 4648, section 4).
fn base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = ALPHABET.iter().position(|known| *known == digit)?;
        bits = (bits << 6) | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_standard_base64_is_decoded() {
        for (text, bytes) in [("", ""), ("TQ==", "M"), ("TWE=", "Ma"), ("TWFu", "Man")] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        for bad in ["T", "TQ", "TQ=", "T===", "T-W_", "TWE= "] {
            assert_eq!(base64(bad), None, "{bad}");
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
