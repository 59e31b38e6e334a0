//! Formats times in the two formats of the API, and parses times of requests.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::capability::Timestamp;

/// Formats a time in ISO 8601, in UTC with milliseconds: `2026-11-20T08:00:00.000Z`. `instant` is
/// in milliseconds since 1970.
#[must_use]
pub fn iso8601(instant: Timestamp) -> String {
    DateTime::from_timestamp_millis(instant)
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Parses a time in the format of RFC 3339, for example `2026-11-20T08:00:00Z`. Returns the time in
/// milliseconds since 1970.
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    Some(time.timestamp_millis())
}

/// Formats a time in UTC with seconds: `2026-11-20 08:00:00`. `instant` is in milliseconds
/// since 1970.
#[must_use]
pub fn sql(instant: Timestamp) -> String {
    DateTime::from_timestamp_millis(instant)
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Parses a time in the format of RFC 3339, for example `2026-11-20T08:00:00Z` or
/// `2026-11-20T09:00:00.5+01:00`. Returns milliseconds since 1970, or `None` if the text is not
/// such a time. Drops smaller fractions than milliseconds.
#[must_use]
pub fn rfc3339(text: &str) -> Option<Timestamp> {
    // RFC 3339 permits a space instead of `T`, but many clients do not.
    if !text.contains(['T', 't']) {
        return None;
    }
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    Some(time.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_formatted_in_utc_with_milliseconds() {
        assert_eq!(iso8601(1_795_161_600_042), "2026-11-20T08:00:00.042Z");
        assert_eq!(sql(1_795_161_600_042), "2026-11-20 08:00:00");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(
            parse("2026-11-20T09:00:00.042+01:00"),
            Some(1_795_161_600_042)
        );
        assert_eq!(parse("2026-11-20"), None);
    }

    #[test]
    fn a_time_of_a_request_is_parsed() {
        for (text, time) in [
            ("2026-11-20T08:00:00Z", 1_795_161_600_000),
            ("2026-11-20t09:00:00.0429+01:00", 1_795_161_600_042),
        ] {
            assert_eq!(rfc3339(text), Some(time), "{text}");
        }
        for text in [
            "",
            "2026-11-20",
            "2026-11-20 08:00:00Z",
            "2026-02-30T08:00:00Z",
            "2026-11-20T08:00:00",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
