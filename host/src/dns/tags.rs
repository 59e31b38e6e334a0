//! Tag lists, the form of DKIM's records (RFC 6376, section 3.2). DMARC's are read more leniently, see `dmarc`.

/// Tags of a record: four times as many as the RFCs know. Whoever publishes more would have them compared in pairs.
const MOST: usize = 32;

/// The tags of a record, in order. None where it is no tag list, names one twice, or has more than anybody needs.
pub(super) fn tags(record: &str) -> Option<Vec<(&str, &str)>> {
    let record = record.trim();
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for tag in record.strip_suffix(';').unwrap_or(record).split(';') {
        let (name, value) = tag.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || tags.len() == MOST || tags.iter().any(|(before, _)| *before == name) {
            return None;
        }
        tags.push((name, value));
    }
    Some(tags)
}

/// A tag's value.
pub(super) fn value<'a>(tags: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    tags.iter()
        .find(|(tag, _)| *tag == name)
        .map(|(_, value)| *value)
}
