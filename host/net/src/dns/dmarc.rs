//! Checks whether a domain publishes a DMARC policy (RFC 7489). Does not evaluate the policy.

/// Returns `true` if the TXT records at `_dmarc.<domain>` contain a policy. Several DMARC records
/// count as no record (RFC 7489, section 6.6.3).
pub(super) fn has_policy(published: &[String]) -> bool {
    let mut records = published.iter().filter_map(|record| tags(record));
    match (records.next(), records.next()) {
        (Some(tags), None) => is_policy(&tags),
        _ => false,
    }
}

/// Returns the tags that follow the version of a DMARC record, or `None` if the record is not a
/// DMARC record. Ignores parts that are not tags (RFC 7489, section 6.3).
fn tags(record: &str) -> Option<Vec<(String, &str)>> {
    let mut parts = record.split(';');
    let (name, version) = tag(parts.next()?)?;
    // The version must match exactly (RFC 7489, section 6.3).
    (name == "v" && version == "DMARC1").then(|| parts.filter_map(tag).collect())
}

/// Returns the name of a tag in lower case, and the value of the tag.
fn tag(part: &str) -> Option<(String, &str)> {
    let (name, value) = part.split_once('=')?;
    Some((name.trim().to_ascii_lowercase(), value.trim()))
}

/// Returns `true` if the tags contain a valid policy or a report address. A report address counts
/// as the policy `none` (RFC 7489, section 6.6.3).
fn is_policy(tags: &[(String, &str)]) -> bool {
    let value = |wanted| {
        let mut found = tags.iter().filter(|(name, _)| name == wanted);
        found.next().map(|(_, value)| *value)
    };
    let is_known = |policy: &str| {
        ["none", "quarantine", "reject"]
            .iter()
            .any(|one| one.eq_ignore_ascii_case(policy))
    };
    let is_valid = value("p").is_some_and(is_known) && value("sp").is_none_or(is_known);
    is_valid || value("rua").is_some_and(|uris| uris.split(',').any(is_mailto))
}

fn is_mailto(uri: &str) -> bool {
    uri.trim().split_once(':').is_some_and(|(scheme, address)| {
        scheme.eq_ignore_ascii_case("mailto")
            && address
                .split_once('@')
                .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(records: &[&str]) -> bool {
        let records: Vec<String> = records.iter().map(ToString::to_string).collect();
        has_policy(&records)
    }

    #[test]
    fn every_policy_counts_in_every_valid_notation() {
        for record in [
            "v=DMARC1; p=none",
            "v=DMARC1;p=Reject;rua=mailto:a@b.example",
            "v = DMARC1 ; p = quarantine ;",
            "V=DMARC1; P=NONE",
            "v=DMARC1; rua=mailto:a@b.example; pct=50; sp=reject; p=quarantine",
            "v=DMARC1; p=none; x-unknown=1; and nonsense",
            "v=DMARC1; rua=mailto:a@b.example",
            "v=DMARC1; p=all; rua=https://b.example, MAILTO:a@b.example!10m",
            "v=DMARC1; p=none; sp=all; rua=mailto:a@b.example",
        ] {
            assert!(published(&[record]), "{record}");
        }
    }

    #[test]
    fn records_without_a_valid_policy_do_not_count() {
        for record in [
            "",
            ";",
            "v=DMARC1",
            "v=DMARC1;",
            "v=DMARC1; p=",
            "v=DMARC1 p=none",
            "p=none; v=DMARC1",
            "v=DMARC1; p=all",
            "v=DMARC1; p=none; sp=all",
            "v=DMARC1; rua=mailto:",
            "v=DMARC1; rua=https://b.example",
            "v=DMARC2; p=none",
            "v=DMARC12; p=none",
            "v=dmarc1; p=none",
            "v=spf1 -all",
        ] {
            assert!(!published(&[record]), "{record}");
        }
    }

    #[test]
    fn a_policy_counts_only_if_it_is_the_only_one() {
        assert!(!published(&[]));
        assert!(!published(&["v=DMARC1; p=none", "v=DMARC1; p=reject"]));
        assert!(!published(&["v=DMARC1; p=none", "v=DMARC1; p=all"]));
        assert!(published(&["some note", "v=DMARC1; p=none", "v=spf1 -all"]));
    }
}
