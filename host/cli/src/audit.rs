//! `latchmail audit`: prints recorded security events, oldest first.

use std::time::Duration;

use anyhow::anyhow;
use chrono::NaiveDate;
use latchmail_core::clock::Timestamp;
use latchmail_directory::events::{EventFilter, Recorded};
use latchmail_terminal::input::parse_address;
use latchmail_terminal::output::{escape, format_time, print_lines};
use serde_json::json;

use crate::context::{CliContext, ServiceArgs};

/// Arguments of `latchmail audit`.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Show only events of the account with this address, and failed sign-ins with this address.
    #[arg(long, value_name = "ADDRESS")]
    account: Option<String>,
    /// Show only events since a date or time (`2026-11-20`, `2026-11-20T08:00:00Z`) or within a
    /// duration (`90m`, `12h`, `7d`, `2w`).
    #[arg(long, value_name = "DATE|DURATION")]
    since: Option<String>,
    /// Show the newest N events.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Prints the events.
///
/// # Errors
/// Returns an error if an argument is invalid, or if the events cannot be read or printed. The
/// error text is one sentence for the operator.
pub async fn run(service: &ServiceArgs, selection: &Selection) -> anyhow::Result<()> {
    let address = selection
        .account
        .as_deref()
        .map(parse_address)
        .transpose()?;
    let context = CliContext::open(service).await?;
    let since = match &selection.since {
        Some(text) => parse_since(text, context.clock.now())?,
        None => Timestamp::from_millis(0),
    };
    let filter = EventFilter {
        address: address.unwrap_or_default(),
        since,
        until: Timestamp::from_millis(i64::MAX),
        limit: selection.limit,
    };
    let events = context.directory.events.list(&filter).await?;
    context.close().await;
    let line = if selection.json { to_json } else { to_line };
    print_lines(events.iter().rev().map(line))
}

/// Parses the value of `--since`.
fn parse_since(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    let duration = || {
        let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 24 * 3600,
            "w" => 7 * 24 * 3600,
            _ => return None,
        };
        let count: u64 = count.parse().ok()?;
        Some(now.minus(Duration::from_secs(count.checked_mul(seconds)?)))
    };
    let date = || {
        let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        let midnight = day.and_hms_opt(0, 0, 0)?.and_utc();
        Some(Timestamp::from_millis(midnight.timestamp_millis()))
    };
    let time = || Timestamp::from_rfc3339(text);
    duration().or_else(date).or_else(time).ok_or_else(|| {
        anyhow!(
            "`{}` is neither a date (2026-11-20), a time (2026-11-20T08:00:00Z) nor a duration (90m, 12h, 7d)",
            escape(text)
        )
    })
}

fn to_line(event: &Recorded) -> String {
    let mut line = format!(
        "{}  {}  {}",
        format_time(event.at),
        event.kind,
        escape(&event.address)
    );
    for (label, value) in [
        (
            "by",
            Some(event.actor.as_str()).filter(|actor| !actor.is_empty()),
        ),
        ("from", event.client.as_deref()),
        ("with", event.credential.as_deref()),
        ("about", event.subject.as_deref()),
        ("request", event.request_id.as_deref()),
    ] {
        if let Some(value) = value {
            line = format!("{line}  {label} {}", escape(value));
        }
    }
    if let Some(detail) = &event.detail {
        line = format!("{line}  ({})", escape(detail));
    }
    if event.unlisted > 0 {
        line = format!("{line}  and {} more that day", event.unlisted);
    }
    line
}

fn to_json(event: &Recorded) -> String {
    json!({
        "at": format_time(event.at),
        "kind": event.kind,
        "address": event.address,
        "actor": event.actor,
        "credential": event.credential,
        "client": event.client,
        "requestId": event.request_id,
        "subject": event.subject,
        "detail": event.detail,
        "unlisted": event.unlisted,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_date_a_time_or_a_duration() {
        let now = Timestamp::from_millis(1_795_161_600_042);
        for (text, instant) in [
            ("2026-11-20", "2026-11-20T00:00:00.000Z"),
            ("2026-11-20T09:00:00+01:00", "2026-11-20T08:00:00.000Z"),
            ("90m", "2026-11-20T06:30:00.042Z"),
            ("12h", "2026-11-19T20:00:00.042Z"),
            ("7d", "2026-11-13T08:00:00.042Z"),
            ("2w", "2026-11-06T08:00:00.042Z"),
            ("0s", "2026-11-20T08:00:00.042Z"),
        ] {
            assert_eq!(
                parse_since(text, now).unwrap().to_string(),
                instant,
                "{text}"
            );
        }
        for text in [
            "",
            "d",
            "7",
            "-7d",
            "7y",
            "yesterday",
            "2026-13-01",
            "é",
            "18446744073709551615w",
        ] {
            assert!(parse_since(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn an_event_is_one_line_with_its_known_fields_escaped() {
        let mut event = Recorded {
            id: 1,
            at: 1_795_161_600_042,
            kind: "signed_in".into(),
            address: "ada@example.org".into(),
            actor: String::new(),
            credential: None,
            client: None,
            request_id: None,
            subject: None,
            detail: None,
            unlisted: 0,
        };
        assert_eq!(
            to_line(&event),
            "2026-11-20T08:00:00.042Z  signed_in  ada@example.org"
        );
        event.actor = "operator".into();
        event.client = Some("192.0.2.7".into());
        event.subject = Some("id".into());
        event.detail = Some("a\nb".into());
        assert_eq!(
            to_line(&event),
            "2026-11-20T08:00:00.042Z  signed_in  ada@example.org  by operator  from 192.0.2.7  about id  (a\\u{a}b)"
        );
        event.unlisted = 57;
        assert!(to_line(&event).ends_with("(a\\u{a}b)  and 57 more that day"));
        let json: serde_json::Value = serde_json::from_str(&to_json(&event)).unwrap();
        assert_eq!(json["detail"], "a\nb");
        assert_eq!(json["requestId"], serde_json::Value::Null);
        assert_eq!(json["unlisted"], 57);
    }
}
