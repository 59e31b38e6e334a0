//! Decides whether a grant may send a message, from facts that the host knows. What a module or
//! the header of a received message says is not a fact.

use std::collections::HashSet;

use super::{OnDenied, Policy, SendLimit, people};

/// The facts about a message that a grant wants to send. All addresses have the form of
/// [`super::person`].
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The recipients, and the addresses to which the message directs replies. `None` for an
    /// address without a canonical form.
    pub people: &'a [Option<String>],
    /// To whom the owner wrote in the thread of the message.
    pub approved: &'a HashSet<String>,
}

/// What happens to a message. The texts complete the sentence "The policy of this grant does not
/// allow …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The message leaves, if the caps of the day permit it.
    Allowed,
    /// The message waits for the owner.
    Held(&'static str),
    /// The message is refused.
    Refused(&'static str),
}

impl Policy {
    /// Decides about the recipients of a message.
    #[must_use]
    pub fn decide(&self, outgoing: Outgoing<'_>) -> Verdict {
        let approves_thread = match self.send {
            SendLimit::Never => return Verdict::Refused("sending"),
            SendLimit::Drafts => return Verdict::Refused("sending, only writing drafts"),
            SendLimit::Any => return Verdict::Allowed,
            SendLimit::List => false,
            SendLimit::Thread => true,
        };
        let is_allowed = |person: &String| {
            let mut listed = self.send_to.iter();
            listed.any(|pattern| people::matches(pattern, person))
                || (approves_thread && outgoing.approved.contains(person))
        };
        let mut all = outgoing.people.iter();
        if all.all(|person| person.as_ref().is_some_and(is_allowed)) {
            return Verdict::Allowed;
        }
        self.deny("sending to a recipient of this message")
    }

    /// Returns the verdict about a message that exceeds a limit of the policy.
    #[must_use]
    pub fn deny(&self, what: &'static str) -> Verdict {
        match self.on_denied {
            OnDenied::Hold => Verdict::Held(what),
            OnDenied::Refuse => Verdict::Refused(what),
        }
    }
}
