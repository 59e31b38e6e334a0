//! Parses tag lists, the format of DKIM records (RFC 6376, section 3.2). The parser for DMARC
//! records in the module `dmarc` is less strict.

/// Maximum number of tags in a record: four times the number of tags that the RFCs define. The
/// limit is necessary, because each tag is compared with all other tags.
const MAX_TAGS: usize = 32;

/// Returns the tags of a record in order. Returns `None` if the record is not a tag list, has a
/// duplicate tag, or has more than [`MAX_TAGS`] tags.
pub(super) fn tags(record: &str) -> Option<Vec<(&str, &str)>> {
    let record = record.trim();
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for tag in record.strip_suffix(';').unwrap_or(record).split(';') {
        let (name, value) = tag.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty()
            || tags.len() == MAX_TAGS
            || tags.iter().any(|(before, _)| *before == name)
        {
            return None;
        }
        tags.push((name, value));
    }
    Some(tags)
}

/// Returns the value of the tag `name`.
pub(super) fn value<'a>(tags: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    tags.iter()
        .find(|(tag, _)| *tag == name)
        .map(|(_, value)| *value)
}
