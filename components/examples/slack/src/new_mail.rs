//! Posts each message that arrives in the inbox.

use latchmail_sdk::capability::{HttpClient, HttpResponse, Mailbox, Store, Summary};
use latchmail_sdk::{Event, Outcome, stored};

use crate::{slack, webhook};

/// The key of the ids of posted events in the store.
const POSTED: &str = "posted";

/// The number of stored ids. After a failure of the host, only the events of the last moments
/// arrive again.
const MAX_POSTED: usize = 100;

/// The delay before another attempt, in seconds, if the webhook names none.
const RETRY: u32 = 60;

/// The longest delay before another attempt, in seconds.
const MAX_RETRY: u32 = 3600;

pub(crate) fn on_event(host: &(impl HttpClient + Mailbox + Store), event: &Event) -> Outcome {
    let Some(uid) = event.json()["uid"].as_u64() else {
        return Outcome::Failed("the event has no uid".into());
    };
    match post(host, &event.id, uid) {
        Ok(()) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

/// Posts a message, unless an earlier call with the same event has posted it.
fn post(
    host: &(impl HttpClient + Mailbox + Store),
    event_id: &str,
    uid: u64,
) -> Result<(), Outcome> {
    let Some(webhook) = webhook::read(host)? else {
        return Ok(());
    };
    let mut posted: Vec<String> = stored::read(host, POSTED)?.unwrap_or_default();
    if posted.iter().any(|id| id == event_id) {
        return Ok(());
    }
    // A message that was deleted is not posted.
    let Some(found) = host.get_summaries(&[uid])?.pop() else {
        return Ok(());
    };
    let response = slack::post(host, &webhook.url, &text(&found.summary))?;
    check(&response)?;
    posted.push(event_id.into());
    let excess = posted.len().saturating_sub(MAX_POSTED);
    posted.drain(..excess);
    stored::write(host, POSTED, &posted)?;
    Ok(())
}

/// Returns an error if the webhook did not accept a message. Another attempt follows if it can
/// succeed.
fn check(response: &HttpResponse) -> Result<(), Outcome> {
    match response.status {
        _ if slack::is_accepted(response) => Ok(()),
        429 | 500.. => Err(Outcome::Retry(retry_after(response))),
        status => Err(Outcome::Failed(format!(
            "the webhook responded with status {status}"
        ))),
    }
}

/// Returns the delay of the header `Retry-After` in seconds.
fn retry_after(response: &HttpResponse) -> u32 {
    let mut headers = response.headers.iter();
    let named = headers.find(|(name, _)| name == "retry-after");
    let seconds = named.and_then(|(_, value)| value.parse().ok());
    seconds.unwrap_or(RETRY).clamp(1, MAX_RETRY)
}

/// Returns the text for a message: the sender, the subject and the beginning of the text.
fn text(message: &Summary) -> String {
    let sender = message.from.first();
    let sender = sender.map_or("(no sender)", |sender| {
        if sender.name.is_empty() {
            sender.address.as_str()
        } else {
            sender.name.as_str()
        }
    });
    let subject = match message.subject.as_str() {
        "" => "(no subject)",
        subject => subject,
    };
    slack::escape(&format!("{sender}: {subject}\n{}", message.preview))
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, Scope};
    use latchmail_sdk::testing::{FakeHost, Letter, event, use_handler};
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "https://hooks.slack.com/services/T0/B0/secret";

    /// Returns a host with a webhook that responds with 200. The caller is the handler.
    fn host() -> FakeHost {
        let host = FakeHost::new();
        use_handler(&host, &[Scope::MailRead]);
        stored::write(&host, "webhook", &json!({ "url": URL })).unwrap();
        respond(&host, 200, None);
        host
    }

    /// Makes the webhook respond with this status and this `Retry-After`.
    fn respond(host: &FakeHost, status: u16, retry_after: Option<&str>) {
        let header = |value: &str| ("retry-after".to_owned(), value.to_owned());
        let response = HttpResponse {
            status,
            headers: retry_after.map(header).into_iter().collect(),
            body: Vec::new(),
        };
        host.set_response("POST", URL, Ok(response));
    }

    /// Calls the handler for an event with this id.
    fn handle(host: &FakeHost, id: &str, uid: u64) -> Outcome {
        let created = Event {
            id: id.into(),
            ..event("message.created", &json!({ "uid": uid, "folder": "INBOX" }))
        };
        crate::handlers().handle_event(host, &created)
    }

    fn deliver(host: &FakeHost) -> u64 {
        let letter = Letter::from("Grace <grace@example.org>").subject("Lunch?");
        host.deliver(letter.text("At <noon>,\nwith @all?"))
    }

    /// Returns the posted texts.
    fn texts(host: &FakeHost) -> Vec<String> {
        let text = |body: &[u8]| {
            let body: Value = serde_json::from_slice(body).unwrap();
            body["text"].as_str().unwrap().to_owned()
        };
        let requests = host.requests();
        requests.iter().map(|sent| text(&sent.body)).collect()
    }

    #[test]
    fn a_new_message_is_posted_with_its_sender_and_without_markup() {
        let host = host();
        let uid = deliver(&host);
        assert_eq!(handle(&host, "one", uid), Outcome::Done);
        let text = "Grace: Lunch?\nAt &lt;noon&gt;, with @\u{200b}all?";
        assert_eq!(texts(&host), [text]);
    }

    #[test]
    fn a_repeated_event_is_posted_once() {
        let host = host();
        let uid = deliver(&host);
        for id in ["one", "two", "one", "two"] {
            assert_eq!(handle(&host, id, uid), Outcome::Done);
        }
        assert_eq!(texts(&host).len(), 2);
    }

    #[test]
    fn the_number_of_stored_ids_is_limited() {
        let host = host();
        let uid = deliver(&host);
        for id in 0..=MAX_POSTED {
            assert_eq!(handle(&host, &id.to_string(), uid), Outcome::Done);
        }
        let posted: Vec<String> = stored::read(&host, POSTED).unwrap().unwrap();
        assert_eq!((posted.len(), posted[0].as_str()), (MAX_POSTED, "1"));
    }

    #[test]
    fn a_temporary_failure_is_tried_again_and_then_posted() {
        let host = host();
        let uid = deliver(&host);
        for (status, retry_after, delay) in [
            (503, None, 60),
            (429, Some("7"), 7),
            (429, Some("86400"), 3600),
            (503, Some("Fri, 20 Nov 2026 08:00:00 GMT"), 60),
        ] {
            respond(&host, status, retry_after);
            assert_eq!(handle(&host, "one", uid), Outcome::Retry(delay));
        }
        for error in [Error::Unavailable, Error::OutcomeUnknown] {
            host.set_response("POST", URL, Err(error));
            assert_eq!(handle(&host, "one", uid), Outcome::Retry(60));
        }
        respond(&host, 200, None);
        assert_eq!(handle(&host, "one", uid), Outcome::Done);
        assert_eq!(texts(&host).len(), 7);
    }

    #[test]
    fn a_webhook_that_does_not_exist_any_longer_pauses_the_module() {
        let host = host();
        let uid = deliver(&host);
        respond(&host, 404, None);
        let gone = Outcome::Failed("the webhook responded with status 404".into());
        assert_eq!(handle(&host, "one", uid), gone);
    }

    #[test]
    fn nothing_is_posted_without_a_webhook_or_for_a_deleted_message() {
        let host = host();
        assert_eq!(handle(&host, "one", 7), Outcome::Done);
        let uid = deliver(&host);
        host.delete_value("webhook").unwrap();
        assert_eq!(handle(&host, "two", uid), Outcome::Done);
        assert!(host.requests().is_empty());
    }
}
