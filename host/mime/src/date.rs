//! Parses Date fields (RFC 5322, sections 3.3 and 4.3; RFC 3339). Returns `None` for an ambiguous date. Callers then use the arrival time.

use chrono::{DateTime, NaiveDate};
use latchmail_core::clock::Timestamp;

use super::lexical::without_comments;

/// Maximum length of a date with comments, in bytes.
const MAX_LENGTH: usize = 1000;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Parses the value of a Date field.
pub(super) fn parse(field: &str) -> Option<Timestamp> {
    let field = field.trim();
    if field.len() > MAX_LENGTH {
        return None;
    }
    if let Ok(date) = DateTime::parse_from_rfc3339(field) {
        return Some(Timestamp::from_millis(date.timestamp_millis()));
    }
    let plain = without_comments(field)?.to_ascii_lowercase();
    let words: Vec<&str> = plain
        .split([' ', '\t', '\r', '\n', ','])
        .filter(|word| !word.is_empty())
        .collect();
    // Ignore the day of the week, because it is often wrong.
    let words = match words.split_first() {
        Some((first, rest)) if first.get(..3).is_some_and(|day| WEEKDAYS.contains(&day)) => rest,
        _ => &words[..],
    };
    let (date, time) = words.split_at_checked(if words.first()?.contains('-') { 1 } else { 3 })?;
    let date = match date {
        [one] => day(&one.split('-').collect::<Vec<_>>())?,
        several => day(several)?,
    };
    let (time, offset) = match time {
        // Some senders write `GMT +0100` instead of `GMT+0100`.
        [time, offset] | [time, "gmt" | "utc", offset] => (*time, zone(offset)?),
        _ => return None,
    };
    let clock: Vec<&str> = time.split(':').collect();
    let (hour, minute, second) = match clock[..] {
        [hour, minute] => (hour, minute, "0"),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    // Treat a leap second as second 59.
    let second = number(second, 2)?;
    let at = date.and_hms_opt(
        number(hour, 2)?,
        number(minute, 2)?,
        if second == 60 { 59 } else { second },
    )?;
    Some(Timestamp::from_millis(
        (at.and_utc().timestamp() - offset) * 1000,
    ))
}

/// Parses day, month and year.
fn day(words: &[&str]) -> Option<NaiveDate> {
    let [day, month, year] = words else {
        return None;
    };
    let month = MONTHS.iter().position(|name| {
        month.starts_with(name) && month.bytes().all(|b| b.is_ascii_lowercase())
    })?;
    let value = i32::try_from(number(year, 4)?).ok()?;
    // RFC 5322, section 4.3, defines two-digit and three-digit years.
    let year = match (year.len(), value) {
        (2, 0..=49) => value + 2000,
        (2 | 3, _) => value + 1900,
        (4, 1900..) => value,
        _ => return None,
    };
    NaiveDate::from_ymd_opt(year, u32::try_from(month).ok()? + 1, number(day, 2)?)
}

/// Parses a time zone. Returns seconds east of UTC.
fn zone(word: &str) -> Option<i64> {
    let word = match word {
        "gmt" | "utc" => return Some(0),
        word => word
            .strip_prefix("gmt")
            .or_else(|| word.strip_prefix("utc"))
            .unwrap_or(word),
    };
    let hours = match word {
        // Of the one-letter zones, only Z is reliable (RFC 5322, section 4.3).
        "ut" | "z" => 0,
        "edt" => -4,
        "est" | "cdt" => -5,
        "cst" | "mdt" => -6,
        "mst" | "pdt" => -7,
        "pst" => -8,
        "cet" => 1,
        "cest" | "eet" => 2,
        _ => {
            let (sign, digits) = match word.split_at_checked(1)? {
                ("+", digits) => (1, digits),
                ("-", digits) => (-1, digits),
                _ => return None,
            };
            let digits = digits.replace(':', "");
            let value = i64::from(number(&digits, 4)?);
            let (hours, minutes) = (value / 100, value % 100);
            return (digits.len() == 4 && hours <= 14 && minutes < 60)
                .then_some(sign * (hours * 3600 + minutes * 60));
        }
    };
    Some(hours * 3600)
}

/// Parses a number of one to `limit` digits.
fn number(word: &str, limit: usize) -> Option<u32> {
    ((1..=limit).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit()))
        .then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: &str) -> Option<String> {
        parse(field).map(|date| date.to_string())
    }

    #[test]
    fn a_date_is_read_in_every_form_that_is_in_use() {
        for same in [
            "Fri, 20 Nov 2026 09:00:00 +0100",
            "fri, 20 NOV 2026 08:00:00 GMT",
            "20 Nov 2026 08:00 UT",
            "20 Nov 26 08:00:00 Z",
            "Fri,20 Nov 2026 08:00:00 GMT+0000",
            "Fri, 20 Nov 2026 09:00:00 UTC +01:00",
            "Mon, 20 Nov 2026 03:00:00 EST",
            "Friday, 20-Nov-2026 08:00:00 -0000",
            "Fri, 20\r\n\tNovember 2026 (a \\) comment (in one)) 09:00:00 +0100 (CET)",
            "Fri, 20 Nov 2026 09:00:00 CET",
            "2026-11-20T09:00:00+01:00",
            "2026-11-20T08:00:00Z",
            "2026-11-20 08:00:00Z",
        ] {
            assert_eq!(
                read(same).as_deref(),
                Some("2026-11-20T08:00:00.000Z"),
                "{same}"
            );
        }
        assert_eq!(
            read("29 Feb 2024 23:59:60 +1400").unwrap(),
            "2024-02-29T09:59:59.000Z"
        );
        assert_eq!(
            read("1 Jan 70 00:00:00 -1459").unwrap(),
            "1970-01-01T14:59:00.000Z"
        );
        assert_eq!(
            read("1 Jan 100 00:00:00 +0000").unwrap(),
            "2000-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn what_is_no_certain_instant_is_none() {
        for field in [
            "",
            "soon",
            "Fri, 31 Feb 2026 09:00:00 +0100",
            "29 Feb 2026 09:00:00 +0100",
            "0 Nov 2026 09:00:00 +0100",
            "20 Foo 2026 09:00:00 +0100",
            "20 11 2026 09:00:00 +0100",
            "11/20/2026 09:00:00 +0100",
            "20 Nov 2026 24:00:00 +0100",
            "20 Nov 2026 09:60:00 +0100",
            "20 Nov 2026 09:00:61 +0100",
            "20 Nov 2026 09:00:00",
            "20 Nov 2026 09:00:00 +1500",
            "20 Nov 2026 09:00:00 +0160",
            "20 Nov 2026 09:00:00 +2500",
            "20 Nov 2026 09:00:00 +01",
            "20 Nov 2026 09:00:00 IST",
            "20 Nov 2026 09:00:00 A",
            "20 Nov 20266 09:00:00 +0100",
            "20 Nov 1026 09:00:00 +0100",
            "20 Nov 2026 9:00 AM +0100",
            "20 Nov 2026 09:00:00 +0100 (open",
            "-",
            "Fri é 20 Nov 2026",
        ] {
            assert_eq!(read(field), None, "{field}");
        }
    }
}
