//! The reasons why no events arrive, and what the user can do.

use anyhow::anyhow;
use http::StatusCode;
use latchmail_terminal::output::escape;
use serde_json::Value;

/// What to do if the credential is not valid.
const NEW_TOKEN: &str = "create an API token with the scope `mail:read` (`POST /api/v1/tokens`), and set LATCHMAIL_TOKEN";
/// What to do if the cursor is not valid.
const READ_AGAIN: &str = "events were missed; if the program keeps a copy of the mailbox, read the mailbox again, and then start the command without --since";

/// The reason why no events arrive.
#[derive(Debug)]
pub(super) enum Interruption {
    /// Another connection can succeed.
    Temporary(String),
    /// The user must act.
    Final(anyhow::Error),
}

/// Returns the interruption for an error response with this text.
pub(super) fn of_status(status: StatusCode, text: &str) -> Interruption {
    let response = format!("the service responded with {}: {text}", status.as_u16());
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return Interruption::Temporary(response);
    }
    let advice = match status {
        StatusCode::UNAUTHORIZED => {
            format!("the token is not valid, has expired or was revoked; {NEW_TOKEN}")
        }
        StatusCode::FORBIDDEN => {
            format!("the token does not have the right to read mail, or is suspended; {NEW_TOKEN}")
        }
        StatusCode::GONE => READ_AGAIN.to_owned(),
        _ => "correct --url, --folder or --types".to_owned(),
    };
    Interruption::Final(anyhow!("{response}. {advice}"))
}

/// Returns the interruption for the last event of a stream, whose data is `{"reason": …}`.
pub(super) fn of_end(data: &str) -> Interruption {
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let reason = data["reason"].as_str().unwrap_or("unknown");
    let advice = match reason {
        "shutdown" => return Interruption::Temporary("the service stops".into()),
        "revoked" => {
            format!("the credential was revoked or suspended, or has expired; {NEW_TOKEN}")
        }
        "rights_changed" | "cursor_expired" => READ_AGAIN.to_owned(),
        "folder_deleted" => "the folder was deleted; give another --folder".to_owned(),
        _ => "start the command again".to_owned(),
    };
    let reason = escape(reason);
    Interruption::Final(anyhow!(
        "the service has ended the stream ({reason}): {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(interruption: Interruption) -> String {
        match interruption {
            Interruption::Final(error) => error.to_string(),
            Interruption::Temporary(reason) => format!("temporary: {reason}"),
        }
    }

    #[test]
    fn each_status_has_advice() {
        for (status, expected) in [
            (401, "LATCHMAIL_TOKEN"),
            (403, "`mail:read`"),
            (404, "--folder"),
            (400, "--types"),
            (410, "without --since"),
            (429, "temporary: the service responded with 429: Text"),
            (503, "temporary: the service responded with 503: Text"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let text = text(of_status(status, "Text"));
            assert!(text.contains(expected), "{text}");
            assert!(text.contains(": Text"), "{text}");
        }
    }

    #[test]
    fn each_end_of_a_stream_has_advice() {
        for (reason, expected) in [
            ("revoked", "LATCHMAIL_TOKEN"),
            ("rights_changed", "without --since"),
            ("cursor_expired", "without --since"),
            ("folder_deleted", "another --folder"),
            ("shutdown", "temporary: the service stops"),
            ("later", "(later): start"),
        ] {
            let text = text(of_end(&format!(r#"{{"reason":"{reason}"}}"#)));
            assert!(text.contains(expected), "{text}");
        }
        assert!(text(of_end("")).contains("unknown"));
    }
}
