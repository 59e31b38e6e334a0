//! The rules. Edit this file to change what happens to arriving mail.
//!
//! A rule reads the message and the list of folders, and changes the decision. Rules do not create
//! folders: a sender who chooses the names of folders could create any number of them. The owner
//! creates a folder, and the rules then use it.

use latchmail_sdk::capability::{Detail, Folder, Verdict};

/// Words in the subject of an invoice, in lower case.
const INVOICE: [&str; 3] = ["invoice", "receipt", "rechnung"];

/// What happens to a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The flags to add. Mail clients show them as labels.
    pub(crate) labels: Vec<String>,
    /// The path of the folder to which the message moves. `None` leaves the message in the inbox.
    pub(crate) folder: Option<String>,
}

/// Decides what happens to a message that has arrived in the inbox.
pub(crate) fn decide(message: &Detail, folders: &[Folder]) -> Decision {
    let mut decision = Decision::default();

    // Label: invoices.
    let subject = message.summary.subject.to_lowercase();
    if INVOICE.iter().any(|word| subject.contains(word)) {
        decision.labels.push("invoice".into());
    }

    // Move: mail of mailing lists, to the folder `Lists`.
    if message.mailing_list.is_some() {
        decision.folder = folder_named("Lists", folders);
        return decision;
    }

    // File by sender: to the folder with the name of the sender's domain.
    if let Some(domain) = sender_domain(message) {
        decision.folder = folder_named(&domain, folders);
    }
    decision
}

/// Returns the path of the first folder with this name, at any depth.
fn folder_named(name: &str, folders: &[Folder]) -> Option<String> {
    let mut folders = folders.iter();
    let found = folders.find(|folder| folder.role.is_none() && folder.name == name);
    found.map(|folder| folder.path.clone())
}

/// Returns the domain of the sender in lower case. Returns `None` if the sender is forged, or if
/// there is no sender.
fn sender_domain(message: &Detail) -> Option<String> {
    if message.authentication.verdict == Verdict::Fail {
        return None;
    }
    let sender = message.summary.from.first()?;
    let (_, domain) = sender.address.rsplit_once('@')?;
    Some(domain.to_lowercase())
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Mailbox as _;
    use latchmail_sdk::testing::{FakeHost, Letter};

    use super::*;

    const FOLDERS: [&str; 2] = ["Lists", "Clients/example.org"];

    /// Returns the decision for a message in a mailbox with [`FOLDERS`].
    fn decision(letter: Letter) -> Decision {
        let host = FakeHost::new();
        for folder in FOLDERS {
            host.create_folder(folder).unwrap();
        }
        let uid = host.deliver(letter);
        decide(
            &host.get_message(uid).unwrap(),
            &host.list_folders().unwrap(),
        )
    }

    fn grace() -> Letter {
        Letter::from("Grace <grace@Example.ORG>").subject("Hello")
    }

    #[test]
    fn invoices_are_labelled() {
        for subject in ["Your INVOICE 17", "Receipt", "Rechnung Nr. 5"] {
            let decision = decision(Letter::from("shop@example.com").subject(subject));
            assert_eq!(decision.labels, ["invoice"], "{subject}");
        }
        assert!(decision(grace()).labels.is_empty());
    }

    #[test]
    fn mail_of_a_mailing_list_goes_to_the_folder_of_lists() {
        let list = grace().list("letters.example.org");
        assert_eq!(decision(list).folder.as_deref(), Some("Lists"));
    }

    #[test]
    fn mail_goes_to_the_folder_of_its_sender_if_there_is_one() {
        let folder = decision(grace()).folder;
        assert_eq!(folder.as_deref(), Some("Clients/example.org"));
        for sender in ["grace@example.com", "grace@sub.example.org", "grace", ""] {
            assert_eq!(decision(Letter::from(sender)), Decision::default());
        }
    }

    #[test]
    fn a_forged_sender_does_not_choose_the_folder() {
        let forged = grace().authenticated(Verdict::Fail, "example.org");
        assert_eq!(decision(forged).folder, None);
    }
}
