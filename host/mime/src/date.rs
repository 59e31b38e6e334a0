//! Parses Date fields (RFC 5322, sections 3.3 and 4.3; RFC 3339). Returns `None` for an ambiguous
//! date. Callers then use the arrival time.

use chrono::{DateTime, NaiveDate};
use latchmail_core::clock::Timestamp;

use super::lexical::without_comments;

/// Maximum length of a date with comments, in bytes.
const MAX_LENGTH: usize = 1000;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Names of time zones with one usual meaning, by minutes east of UTC. Of the one-letter zones,
/// only Z is reliable (RFC 5322, section 4.3).
const ZONES: [(i64, &[&str]); 26] = [
    (-600, &["hst"]),
    (-540, &["akst"]),
    (-480, &["pst", "akdt"]),
    (-420, &["mst", "pdt"]),
    (-360, &["cst", "mdt"]),
    (-300, &["est", "cdt"]),
    (-240, &["edt"]),
    (-210, &["nst"]),
    (-180, &["brt"]),
    (-150, &["ndt"]),
    (0, &["gmt", "utc", "ut", "z", "wet"]),
    (60, &["cet", "met", "mez", "bst", "west"]),
    (120, &["cest", "mest", "mesz", "eet", "sast"]),
    (180, &["eest", "msk"]),
    (240, &["msd"]),
    (300, &["pkt"]),
    (345, &["npt"]),
    (420, &["wib"]),
    (480, &["awst", "hkt", "sgt"]),
    (540, &["jst", "kst"]),
    (570, &["acst"]),
    (600, &["aest"]),
    (630, &["acdt"]),
    (660, &["aedt"]),
    (720, &["nzst"]),
    (780, &["nzdt"]),
];

/// Parses the value of a Date field.
pub(super) fn parse(field: &str) -> Option<Timestamp> {
    parse_with_offset(field).map(|(date, _)| date)
}

/// Parses the value of a Date field. The second returned value is the sender's time zone in seconds
/// east of UTC, or 0 if the zone is unknown.
pub(super) fn parse_with_offset(field: &str) -> Option<(Timestamp, i32)> {
    let field = field.trim();
    if field.len() > MAX_LENGTH {
        return None;
    }
    if let Ok(date) = DateTime::parse_from_rfc3339(field) {
        let offset = date.offset().local_minus_utc();
        return Some((Timestamp::from_millis(date.timestamp_millis()), offset));
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
    let (time, zone) = time.split_first()?;
    let offset = offset(zone)?;
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
    let date = Timestamp::from_millis((at.and_utc().timestamp() - offset) * 1000);
    Some((date, i32::try_from(offset).ok()?))
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

/// Parses the words of a time zone. Returns seconds east of UTC. Returns 0 for an unknown name (RFC
/// 5322, section 4.3).
fn offset(words: &[&str]) -> Option<i64> {
    match words {
        // Some senders write `GMT +0100` instead of `GMT+0100`, and some add the name of the zone.
        ["gmt" | "utc", zone] => numeric_zone(zone).or_else(|| named_zone(words)),
        [zone, name] if is_zone_name(name) => numeric_zone(zone).or_else(|| named_zone(words)),
        [zone] => {
            let prefix = ["gmt", "utc"]
                .iter()
                .find_map(|name| zone.strip_prefix(name));
            numeric_zone(prefix.unwrap_or(zone)).or_else(|| named_zone(words))
        }
        _ => named_zone(words),
    }
}

/// Parses an offset such as `+0100` or `+01:00`.
fn numeric_zone(word: &str) -> Option<i64> {
    let (sign, digits) = match word.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replace(':', "");
    let value = i64::from(number(&digits, 4)?);
    let (hours, minutes) = (value / 100, value % 100);
    (digits.len() == 4 && hours <= 14 && minutes < 60)
        .then_some(sign * (hours * 3600 + minutes * 60))
}

/// Returns the offset of a zone with a name of one or several words. Returns `None` if the words
/// cannot be a name.
fn named_zone(words: &[&str]) -> Option<i64> {
    if words.is_empty() || !words.iter().all(|word| is_zone_name(word)) {
        return None;
    }
    let known = ZONES.iter().find(|(_, names)| match words {
        [name] => names.contains(name),
        _ => false,
    });
    Some(known.map_or(0, |(minutes, _)| minutes * 60))
}

fn is_zone_name(word: &str) -> bool {
    word.bytes()
        .all(|b| b.is_ascii_alphabetic() || matches!(b, b'.' | b'/' | b'_'))
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && !matches!(word, "am" | "pm")
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
            "Fri, 20 Nov 2026 09:00:00 MET",
            "Fri, 20 Nov 2026 09:00:00 BST",
            "Fri, 20 Nov 2026 10:00:00 MEST",
            "Fri, 20 Nov 2026 10:00:00 eet",
            "Fri, 20 Nov 2026 17:00:00 JST",
            "Fri, 20 Nov 2026 17:30:00 ACST",
            "Fri, 20 Nov 2026 09:00:00 +0100 CET",
            // Unknown names mean `-0000`.
            "Fri, 20 Nov 2026 08:00:00 IST",
            "Fri, 20 Nov 2026 08:00:00 A",
            "Fri, 20 Nov 2026 08:00:00 Europe/Berlin",
            "Fri, 20 Nov 2026 08:00:00 W. Europe Standard Time",
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
            "20 Nov 2026 09:00:00 PM",
            "20 Nov 2026 09:00:00 GMT CET +01",
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
