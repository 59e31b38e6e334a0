//! Decides whether the policy of a grant lets a message leave, and records what left. All messages
//! pass [`authorize`] before the mail server is contacted: messages that leave at once,
//! drafts, and scheduled messages, on request and again when they leave.

use std::collections::HashSet;
use std::sync::Arc;

use latchmail_core::policy::{self, ActingGrant, Outgoing, Policy, SendLimit, Verdict, person};
use latchmail_directory::policies::{Charge, SentRecord};
use latchmail_mime::{self as mime, Header};

use super::draft::Draft;
use super::envelope::{Envelope, EnvelopeAddress};
use super::holds;
use super::later::later_message;
use super::options::SendOptions;
use super::original::{Original, Relation};
use super::result::{Error, Sent};
use super::send::Outbox;
use crate::access::Access;
use crate::bounds;
use crate::error::Error as MailboxError;

/// Maximum number of messages with the Message-ID of the parent that are read.
const MAX_PARENTS: usize = 3;
/// The header fields besides Reply-To that direct replies and receipts to other addresses. Only
/// stored messages can have them.
const REPLY_FIELDS: [&str; 4] = [
    "mail-reply-to",
    "mail-followup-to",
    "disposition-notification-to",
    "return-receipt-to",
];
/// The header fields that name the ancestors of a message.
const ANCESTORS: [&str; 2] = ["References", "In-Reply-To"];

/// What the host knows of a message that is about to leave.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The recipients in the envelope.
    pub(crate) recipients: Vec<String>,
    /// The addresses in Reply-To, and in the fields that have the same effect.
    pub(crate) reply_to: Vec<String>,
    /// The Message-IDs in References and In-Reply-To, the direct parent last.
    pub(crate) ancestors: Vec<String>,
    /// Whether the message forwards another one. A forward is not part of the thread.
    pub(crate) is_forward: bool,
    /// Whether the message leaves now, so that it counts towards the caps of this day.
    pub(crate) leaves_now: bool,
}

/// The decision about a message.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The message may leave.
    Allowed(Permit),
    /// The message waits for the owner. The text completes the sentence "The policy of this grant
    /// does not allow …".
    Held(&'static str),
}

/// The permission to send one message. [`settle`] ends it.
#[derive(Debug, Default)]
#[must_use = "a message that was not sent must not count"]
pub(crate) struct Permit(Option<Charge>);

impl Facts {
    /// Returns the facts of a draft that the service writes.
    pub(crate) fn of_draft(draft: &Draft, envelope: &Envelope, leaves_now: bool) -> Self {
        let parent = draft.in_reply_to.iter();
        let reply_to = draft.reply_to.iter();
        Self {
            recipients: texts(&envelope.to),
            reply_to: reply_to.map(|one| one.address.to_string()).collect(),
            ancestors: draft.references.iter().chain(parent).cloned().collect(),
            is_forward: is_forward(draft.original.as_ref()),
            leaves_now,
        }
    }

    /// Returns the facts of a complete message.
    pub(crate) fn of_message(
        message: &[u8],
        envelope: &Envelope,
        original: Option<&Original>,
        leaves_now: bool,
    ) -> Self {
        let (head, _) = mime::split(message);
        let header = Header::of(head, bounds::FIELD);
        let mut ancestors = header.references;
        ancestors.extend(header.in_reply_to);
        let reply_to = header.reply_to.into_iter().map(|one| one.address);
        let mut reply_to: Vec<String> = reply_to.collect();
        for name in REPLY_FIELDS {
            let (others, is_cut) = mime::addresses_of(head, name);
            reply_to.extend(others.into_iter().map(|one| one.address));
            // An empty address is nobody's, so no list allows the addresses that were cut off.
            reply_to.extend(is_cut.then(String::new));
        }
        Self {
            recipients: texts(&envelope.to),
            reply_to,
            ancestors,
            is_forward: is_forward(original),
            leaves_now,
        }
    }
}

fn texts(addresses: &[EnvelopeAddress]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn is_forward(original: Option<&Original>) -> bool {
    matches!(original, Some(Original::Known(one)) if one.relation == Relation::Forward)
}

/// Decides with the current policy whether the caller may send a message, and counts the message
/// towards the caps. A caller without a policy may send.
///
/// # Errors
/// Returns [`Error::Denied`] if the policy refuses the message, or if the grant is suspended.
/// Returns another [`Error`] if the policy or the facts cannot be read: then the message must not
/// be sent.
pub(crate) async fn authorize(
    outbox: &Outbox,
    access: &Access,
    facts: &Facts,
) -> Result<Decision, Error> {
    let Some(grant) = &access.grant else {
        return Ok(Decision::Allowed(Permit::default()));
    };
    let Some(policy) = current_policy(outbox, grant).await? else {
        return Ok(Decision::Allowed(Permit::default()));
    };
    let now = outbox.clock.now();
    if policy.is_over(now) {
        return Err(refused("requests any longer"));
    }
    match decide(outbox, access, &policy, facts).await? {
        Verdict::Allowed => {}
        Verdict::Held(what) => return Ok(Decision::Held(what)),
        Verdict::Refused(what) => return Err(refused(what)),
    }
    let has_cap = policy.send_per_day.is_some() || policy.recipients_per_day.is_some();
    if !(has_cap && facts.leaves_now) {
        return Ok(Decision::Allowed(Permit::default()));
    }
    let (policies, recipients) = (&outbox.directory.policies, facts.recipients.len());
    let charge = policies.charge(&grant.app_password_id, &policy, recipients, now);
    match charge.await? {
        Some(charge) => Ok(Decision::Allowed(Permit(Some(charge)))),
        None => match policy.deny("more mail today") {
            Verdict::Held(what) => Ok(Decision::Held(what)),
            Verdict::Refused(what) => Err(refused(what)),
            Verdict::Allowed => Ok(Decision::Allowed(Permit::default())),
        },
    }
}

/// Returns the current policy of a grant, because the owner can have changed it since the request
/// began. If the grant has ended, returns the policy at the time of the request, because a message
/// is sent although its token has expired.
async fn current_policy(outbox: &Outbox, grant: &ActingGrant) -> Result<Option<Policy>, Error> {
    let policies = &outbox.directory.policies;
    match policies.standing(&grant.app_password_id).await? {
        Some(standing) if standing.suspended => Err(MailboxError::Suspended.into()),
        Some(standing) => Ok(standing.policy),
        None => Ok(grant.policy.clone()),
    }
}

/// Decides about the recipients.
async fn decide(
    outbox: &Outbox,
    access: &Access,
    policy: &Policy,
    facts: &Facts,
) -> Result<Verdict, Error> {
    let mut people: Vec<Option<String>> = facts.recipients.iter().map(|one| person(one)).collect();
    if !facts.reply_to.is_empty() && policy.send != SendLimit::Any {
        // Replies to another person would leave the thread too.
        let own = own_people(outbox, access).await?;
        let foreign = facts.reply_to.iter().map(|one| person(one));
        people.extend(foreign.filter(|one| {
            let is_own = one.as_ref().is_some_and(|one| own.contains(one));
            !is_own
        }));
    }
    let verdict_with = |approved: &HashSet<String>| {
        policy.decide(Outgoing {
            people: &people,
            approved,
        })
    };
    let verdict = verdict_with(&HashSet::new());
    let is_open = !matches!(verdict, Verdict::Allowed);
    if !is_open || policy.send != SendLimit::Thread || facts.is_forward {
        return Ok(verdict);
    }
    let policies = &outbox.directory.policies;
    let approved = policies.approved(&access.account, &facts.ancestors).await?;
    let verdict = verdict_with(&approved);
    let Some(parent) = facts.ancestors.last() else {
        return Ok(verdict);
    };
    if verdict == Verdict::Allowed || !approved.is_empty() {
        return Ok(verdict);
    }
    // The client has sent In-Reply-To without all of References. The header of the parent only
    // selects the thread, so it does not matter who wrote it.
    let ancestors = ancestors_of(outbox, access, parent).await?;
    let approved = policies.approved(&access.account, &ancestors).await?;
    Ok(verdict_with(&approved))
}

/// Returns the ancestors of the messages with this Message-ID, and the Message-ID itself.
async fn ancestors_of(
    outbox: &Outbox,
    access: &Access,
    parent: &str,
) -> Result<Vec<String>, Error> {
    let mut ancestors = Vec::new();
    let found = outbox.mail.search.with_message_id(access, parent).await?;
    for number in found.into_iter().take(MAX_PARENTS) {
        let names = ANCESTORS.map(ToOwned::to_owned).to_vec();
        let header = outbox.mail.reading.header(access, number, Some(names));
        let fields = header.await?.map(|header| header.fields);
        for name in ANCESTORS {
            let fields = fields.iter().flatten();
            let values = fields.filter(|field| field.name.eq_ignore_ascii_case(name));
            let words = values.flat_map(|field| field.value.split_whitespace());
            ancestors.extend(words.map(ToOwned::to_owned));
        }
    }
    ancestors.push(parent.to_owned());
    Ok(ancestors)
}

/// Returns the addresses of the account.
async fn own_people(outbox: &Outbox, access: &Access) -> Result<HashSet<String>, Error> {
    let aliases = &outbox.directory.aliases;
    let all = aliases.addresses_of(&access.account, outbox.clock.now());
    let all = all.await?.into_iter();
    Ok(all.filter_map(|one| person(&one.address)).collect())
}

/// Writes a message, and stores it until the owner decides.
pub(super) async fn hold_draft(
    outbox: &Outbox,
    draft: &Arc<Draft>,
    envelope: Envelope,
    message_id: String,
    options: &SendOptions,
    reason: &'static str,
) -> Result<Sent, Error> {
    let send_at = if options.is_later() {
        Some(outbox.departure(options).await?)
    } else {
        None
    };
    let (later, _memory) = later_message(outbox, draft, envelope, &message_id).await?;
    let hold = holds::hold(outbox, &draft.from.access, later, send_at, reason).await?;
    Ok(Sent::held(message_id, hold, false))
}

/// Ends the permission to send a message. If nothing was sent, the message does not count
/// towards the caps.
pub(crate) async fn settle<T>(outbox: &Outbox, permit: Permit, sent: &Result<T, Error>) {
    let Some(charge) = permit.0 else {
        return;
    };
    if matches!(sent, Ok(_) | Err(Error::Unknown(_))) {
        return;
    }
    if let Err(error) = outbox.directory.policies.refund(&charge).await {
        tracing::warn!(%error, "a message that was not sent counts towards a cap");
    }
}

/// Records who sends a message to whom, before the message is submitted.
///
/// # Errors
/// Returns an [`Error`] if the database fails.
pub(crate) async fn record_sent(
    outbox: &Outbox,
    account: &str,
    is_person: bool,
    message: &[u8],
) -> Result<(), Error> {
    let (head, _) = mime::split(message);
    let Some(record) = sent_record(head) else {
        return Ok(());
    };
    let now = outbox.clock.now();
    let policies = &outbox.directory.policies;
    let recorded = policies.record_sent(account, is_person, &record, now);
    Ok(recorded.await?)
}

/// Returns the record of a message with this header. Returns `None` if the message has no usable
/// Message-ID.
#[must_use]
pub fn sent_record(head: &[u8]) -> Option<SentRecord> {
    let header = Header::of(head, bounds::FIELD);
    let people = header.to.iter().chain(&header.cc);
    SentRecord::new(
        &header.message_id,
        header.in_reply_to.as_deref(),
        &header.references,
        people.map(|one| one.address.as_str()),
    )
}

/// Returns the error for a message that a policy refuses.
fn refused(what: &str) -> Error {
    Error::Denied(policy::denied(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::envelope::Reports;

    #[test]
    fn all_fields_that_direct_replies_are_facts() {
        let from = EnvelopeAddress::parse("ada@x.example").unwrap();
        let envelope = Envelope {
            to: vec![from.clone()],
            from,
            reports: Reports::Default,
        };
        let message = "Reply-To: a@x.example\r\nMail-Followup-To: B <b@x.example>\r\n\
            Disposition-Notification-To: c@x.example\r\nReferences: <1@x.example>\r\n\
            In-Reply-To: <2@x.example>\r\n\r\nReply-To: d@x.example\r\n";
        let facts = Facts::of_message(message.as_bytes(), &envelope, None, true);
        assert_eq!(
            facts.reply_to,
            ["a@x.example", "b@x.example", "c@x.example"]
        );
        assert_eq!(facts.ancestors, ["<1@x.example>", "<2@x.example>"]);
    }
}
