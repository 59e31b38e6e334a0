//! An example of a module: rules in code. The module labels and files each message that arrives in
//! the inbox. It has no routes.
//!
//! This file applies the rules. `rules.rs` has the rules themselves: edit that file.

mod rules;

use latchmail_sdk::capability::{FlagAction, Mailbox};
use latchmail_sdk::{Event, Handlers, Outcome};

/// The path of the inbox.
const INBOX: &str = "INBOX";

/// Returns the handlers.
#[must_use]
pub fn handlers<H: Mailbox>() -> Handlers<H> {
    Handlers::new()
        .events(&["message.created"], Some("\\Inbox"))
        .on_event(on_event)
}

fn on_event(host: &impl Mailbox, event: &Event) -> Outcome {
    let Some(uid) = event.json()["uid"].as_u64() else {
        return Outcome::Failed("the event has no uid".into());
    };
    match apply(host, uid) {
        Ok(()) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

/// Applies the rules to a message. Applying them twice has the same effect as applying them once.
fn apply(host: &impl Mailbox, uid: u64) -> Result<(), Outcome> {
    let message = host.get_message(uid)?;
    // A person, or an earlier call with the same event, has moved the message.
    if message.folder != INBOX {
        return Ok(());
    }
    let decision = rules::decide(&message, &host.list_folders()?);
    if !decision.labels.is_empty() {
        host.set_flags(&[uid], &decision.labels, FlagAction::Add, None)?;
    }
    // Last, because only messages in the inbox are labelled.
    if let Some(folder) = decision.folder {
        host.move_messages(&[uid], &folder, None)?;
    }
    Ok(())
}

latchmail_sdk::export_handlers!(handlers);

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, Scope};
    use latchmail_sdk::testing::{FakeHost, Letter, event, use_handler};
    use serde_json::json;

    use super::*;

    /// Returns a host with these folders. The caller is the handler.
    fn host(folders: &[&str]) -> FakeHost {
        let host = FakeHost::new();
        for folder in folders {
            host.create_folder(folder).unwrap();
        }
        use_handler(&host, &[Scope::MailRead, Scope::MailWrite]);
        host
    }

    fn handle(host: &FakeHost, uid: u64) -> Outcome {
        let created = event("message.created", &json!({ "uid": uid, "folder": INBOX }));
        handlers().handle_event(host, &created)
    }

    /// Returns the folder and the labels of a message.
    fn filed(host: &FakeHost, uid: u64) -> (String, Vec<String>) {
        let message = host.get_message(uid).unwrap();
        (message.folder, message.summary.flags)
    }

    fn invoice() -> Letter {
        Letter::from("shop@example.org").subject("Your invoice")
    }

    #[test]
    fn a_message_is_labelled_and_filed() {
        let host = host(&["Shops/example.org"]);
        let uid = host.deliver(invoice());
        assert_eq!(handle(&host, uid), Outcome::Done);
        let expected = ("Shops/example.org".to_owned(), vec!["invoice".to_owned()]);
        assert_eq!(filed(&host, uid), expected);
    }

    #[test]
    fn a_repeated_event_does_not_move_a_message_again() {
        let host = host(&["example.org", "Later"]);
        let uid = host.deliver(invoice());
        assert_eq!(handle(&host, uid), Outcome::Done);
        host.move_messages(&[uid], "Later", None).unwrap();
        assert_eq!(handle(&host, uid), Outcome::Done);
        assert_eq!(filed(&host, uid).0, "Later");
    }

    #[test]
    fn a_message_without_a_matching_rule_is_not_changed() {
        let host = host(&["Lists", "example.com"]);
        let uid = host.deliver(Letter::from("grace@example.org").subject("Hello"));
        assert_eq!(handle(&host, uid), Outcome::Done);
        assert_eq!(filed(&host, uid), (INBOX.to_owned(), Vec::new()));
    }

    #[test]
    fn a_deleted_message_is_done() {
        assert_eq!(handle(&host(&[]), 7), Outcome::Done);
    }

    #[test]
    fn an_unavailable_mail_server_is_tried_again() {
        let host = host(&[]);
        let uid = host.deliver(invoice());
        host.fail(Error::Unavailable);
        assert_eq!(handle(&host, uid), Outcome::Retry(60));
    }

    #[test]
    fn a_missing_scope_pauses_the_module() {
        let host = host(&[]);
        let uid = host.deliver(invoice());
        use_handler(&host, &[Scope::MailRead]);
        let outcome = handle(&host, uid);
        assert!(matches!(outcome, Outcome::Failed(text) if text.contains("mail:write")));
    }
}
