//! Keywords (RFC 8621, section 4.1.1) and IMAP flags.

use serde_json::Value;

use crate::args::Object;
use crate::error::SetError;
use crate::limits::MAX_KEYWORDS;

/// The keywords that are system flags in IMAP.
const SYSTEM: [(&str, &str); 4] = [
    ("$seen", "\\Seen"),
    ("$flagged", "\\Flagged"),
    ("$answered", "\\Answered"),
    ("$draft", "\\Draft"),
];

/// Returns the flag of a keyword.
pub(crate) fn flag_of(keyword: &str) -> String {
    let keyword = keyword.to_lowercase();
    let system = SYSTEM.iter().find(|(name, _)| *name == keyword);
    system.map_or(keyword, |(_, flag)| (*flag).to_owned())
}

/// Returns the keywords of flags. Other system flags are not shown.
pub(super) fn of_flags(flags: &[String]) -> Object {
    let mut keywords = Object::new();
    for flag in flags {
        let mut system = SYSTEM.iter();
        let system = system.find(|(_, name)| name.eq_ignore_ascii_case(flag));
        let keyword = match system {
            Some((keyword, _)) => (*keyword).to_owned(),
            None if flag.starts_with('\\') => continue,
            None => flag.to_lowercase(),
        };
        keywords.insert(keyword, true.into());
    }
    keywords
}

/// Checks a keyword.
pub(super) fn check(keyword: &str) -> Result<(), SetError> {
    let is_valid = |b: u8| (0x21..0x7f).contains(&b) && !b"(){]%*\"\\".contains(&b);
    if (1..=255).contains(&keyword.len()) && keyword.bytes().all(is_valid) {
        return Ok(());
    }
    let text = format!("{keyword:?} is not a keyword");
    Err(SetError::invalid(&["keywords"], text))
}

/// Reads the property `keywords`. Returns the flags.
pub(super) fn read(value: Option<&Value>) -> Result<Vec<String>, SetError> {
    let wrong = || SetError::invalid(&["keywords"], "keywords must be an object of true");
    let keywords = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value.as_object().ok_or_else(wrong)?,
    };
    if keywords.len() > MAX_KEYWORDS {
        return Err(SetError::new("tooManyKeywords"));
    }
    let mut flags = Vec::with_capacity(keywords.len());
    for (keyword, value) in keywords {
        if *value != Value::Bool(true) {
            return Err(wrong());
        }
        check(keyword)?;
        flags.push(flag_of(keyword));
    }
    flags.sort();
    flags.dedup();
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_are_flags() {
        let flags = ["\\Seen", "$Forwarded", "\\Deleted", "Work"].map(String::from);
        let expected = json!({ "$seen": true, "$forwarded": true, "work": true });
        assert_eq!(Value::Object(of_flags(&flags)), expected);
        assert_eq!(flag_of("$SEEN"), "\\Seen");
        let read = |value: Value| read(Some(&value));
        let flags = read(json!({ "$draft": true, "a": true, "A": true })).unwrap();
        assert_eq!(flags, ["\\Draft", "a"]);
        for wrong in [
            json!({ "a": false }),
            json!([]),
            json!({ "a b": true }),
            json!({ "": true }),
        ] {
            assert!(read(wrong).is_err());
        }
    }
}
