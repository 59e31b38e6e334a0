//! Collects one message while the milter receives it: the senders in the header, and a copy of
//! limited size. The copy is used to verify the signatures.

use std::sync::Arc;

use latchmail_mailbox::MarkedContent;
use latchmail_mailbox::outbox::{SUBMISSION_FIELD, is_submission_id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::notification::Notification;
use super::results;
use super::senders::{MAX_SENDERS, MAX_SENDERS_SIZE, Senders};

/// The fields besides From that contain the sender of a submission. Resent-From and Resent-Sender
/// contain the address of the account that resends a message (RFC 5322, section 3.6.6).
const OTHER_SENDER_FIELDS: [&str; 3] = ["Sender", "Resent-From", "Resent-Sender"];

/// Maximum number of recipients whose mail is counted. Postfix accepts at most 1000 recipients by
/// default (`smtpd_recipient_limit`).
const MAX_RECIPIENTS: usize = 1000;

/// Maximum number of signatures that are verified. Further signatures are ignored.
const MAX_SIGNATURES: usize = 10;

/// Maximum length of a signature in bytes, and maximum number of colons. A colon separates two
/// names of signed fields, and the verification searches all fields for each name. A longer
/// signature is ignored.
const MAX_SIGNATURE_LENGTH: usize = 8 * 1024;
const MAX_SIGNATURE_COLONS: usize = 200;

/// Maximum number of fields that claim to be results of this server. A message with more such
/// fields is rejected, because the mail server searches the complete queue file for each deleted
/// field.
const MAX_FORGED_RESULTS: usize = 100;

/// Maximum number of header fields, and maximum size of the header in bytes. The signatures of a
/// message with a larger header are not verified.
const MAX_FIELDS: usize = 1000;
const MAX_HEADER_SIZE: usize = 512 * 1024;

/// A limit that the header of a message exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Senders,
    Results,
}

/// A message that the milter is receiving.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// The log-in name of the client. `None` if the message is not a submission.
    pub(crate) login: Option<String>,
    /// The envelope sender. Empty for the null sender.
    pub(crate) sender: String,
    /// The envelope recipients that the mail server accepted, at most [`MAX_RECIPIENTS`].
    pub(crate) recipients: Vec<String>,
    /// The senders in all From fields.
    pub(crate) from: Senders,
    pub(crate) from_fields: usize,
    /// The senders in each field of [`OTHER_SENDER_FIELDS`], for submissions only.
    pub(crate) other_senders: Vec<(&'static str, Senders)>,
    /// The indexes of the `Authentication-Results` fields that claim to come from this server. The
    /// index of the first `Authentication-Results` field is 1.
    pub(crate) forged_results: Vec<u32>,
    /// The number of [`SUBMISSION_FIELD`] fields, for submissions only.
    pub(crate) submission_fields: u32,
    /// The id in the first of these fields.
    pub(crate) submission: Option<String>,
    /// The reason why the message must be rejected, if the header exceeded a limit.
    pub(crate) excess: Option<Excess>,
    /// The size of all sender fields, in bytes.
    senders_size: usize,
    /// The From fields in their received form.
    from_text: Vec<u8>,
    results_fields: u32,
    fields: usize,
    signatures: usize,
    /// The header fields and the body for the verification of SPF, DKIM and DMARC.
    copy: Vec<u8>,
    is_header_too_large: bool,
    permits: Option<OwnedSemaphorePermit>,
    /// The message, if it can be a delivery report.
    pub(crate) notification: Option<Notification>,
    /// `true` if the memory for bodies was exhausted.
    pub(crate) out_of_memory: bool,
    /// The content that the mark in the `Authentication-Results` field authenticates.
    pub(crate) marked: MarkedContent,
}

impl Message {
    /// Adds an envelope recipient.
    pub(crate) fn add_recipient(&mut self, recipient: String) {
        if self.recipients.len() < MAX_RECIPIENTS {
            self.recipients.push(recipient);
        }
    }

    /// Adds a header field. Lines of a folded `value` are separated by LF.
    pub(crate) fn add_field(&mut self, name: &[u8], value: &[u8], authserv_id: &str) {
        let is = |known: &str| name.trim_ascii().eq_ignore_ascii_case(known.as_bytes());
        if is(results::NAME) {
            self.results_fields = self.results_fields.saturating_add(1);
            if results::claims_to_be_from(value, authserv_id) {
                if self.forged_results.len() == MAX_FORGED_RESULTS {
                    self.excess = Some(Excess::Results);
                } else {
                    self.forged_results.push(self.results_fields);
                }
            }
        }
        if self.login.is_some() && is(SUBMISSION_FIELD) {
            self.submission_fields = self.submission_fields.saturating_add(1);
            let id = std::str::from_utf8(value.trim_ascii()).ok();
            let id = id.filter(|id| is_submission_id(id));
            self.submission = self.submission.take().or(id.map(ToOwned::to_owned));
            // The field is removed, so it is not part of the content.
            return;
        }
        let sender_field = OTHER_SENDER_FIELDS.into_iter().find(|field| is(field));
        let sender_field = sender_field.filter(|_| self.login.is_some());
        let is_from = is("From");
        if is_from || sender_field.is_some() {
            self.senders_size += value.len();
            if self.senders_size > MAX_SENDERS_SIZE {
                self.excess = Some(Excess::Senders);
            }
        }
        if self.excess.is_some() {
            // The message is rejected, so the rest of the header is not needed.
            self.copy = Vec::new();
            self.from_text = Vec::new();
            self.signatures = 0;
            return;
        }
        self.marked.add_field(name, value);
        if is("Content-Type") && self.sender.is_empty() && self.login.is_none() {
            self.notification = Notification::begin(value);
        }
        let line = [name, b":", &with_crlf(value), b"\r\n"].concat();
        if is_from {
            self.from_fields += 1;
            if self.from_fields == 1 {
                self.from = Senders::parse(value);
            } else if self.from.domains.len() <= MAX_SENDERS {
                self.from.merge(Senders::parse(value));
            }
            self.from_text.extend_from_slice(&line);
        }
        if let Some(field) = sender_field
            && self.other_senders.len() <= MAX_SENDERS
        {
            self.other_senders.push((field, Senders::parse(value)));
        }
        if is("DKIM-Signature") {
            if self.signatures == MAX_SIGNATURES
                || value.len() > MAX_SIGNATURE_LENGTH
                || value.split(|byte| *byte == b':').count() > MAX_SIGNATURE_COLONS + 1
            {
                return;
            }
            self.signatures += 1;
        }
        self.fields += 1;
        self.is_header_too_large |=
            self.fields > MAX_FIELDS || self.copy.len() + line.len() > MAX_HEADER_SIZE;
        if self.is_header_too_large {
            self.copy = Vec::new();
        } else {
            self.copy.extend_from_slice(&line);
        }
    }

    /// Ends the header.
    pub(crate) fn end_header(&mut self) {
        if self.is_header_too_large {
            // Use only the From fields, because SPF and DMARC need no other field.
            self.copy.clone_from(&self.from_text);
            self.signatures = 0;
        }
        self.copy.extend_from_slice(b"\r\n");
    }

    /// Adds a piece of the body. Copies the piece if the message has signatures to verify. `memory`
    /// has one permit for each KiB of memory. If no permits are left, discards the copy of the body
    /// and sets `out_of_memory`.
    pub(crate) fn add_body(&mut self, piece: &[u8], memory: &Arc<Semaphore>) {
        self.marked.add_body(piece);
        if let Some(notification) = &mut self.notification {
            notification.add_body(piece, memory);
        }
        if self.login.is_some() || self.signatures == 0 || self.out_of_memory {
            return;
        }
        let needed = u32::try_from(piece.len().div_ceil(1024)).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(memory).try_acquire_many_owned(needed) else {
            self.out_of_memory = true;
            self.copy = Vec::new();
            self.permits = None;
            return;
        };
        match &mut self.permits {
            Some(permits) => permits.merge(permit),
            None => self.permits = Some(permit),
        }
        self.copy.extend_from_slice(piece);
    }

    /// Returns the header and body to verify.
    pub(crate) fn copy(&self) -> &[u8] {
        &self.copy
    }
}

/// Replaces LF with CRLF. The sender signed the fields with CRLF, but the mail server sends LF.
fn with_crlf(value: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(value.len() + 8);
    for (number, line) in value.split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            replaced.extend_from_slice(b"\r\n");
        }
        replaced.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "mail.first.test";

    fn signed(signatures: usize) -> Message {
        let mut message = Message::default();
        for _ in 0..signatures {
            message.add_field(b"DKIM-Signature", b" v=1; a=rsa-sha256", ID);
        }
        message.add_field(b"From", b" a@outside.test", ID);
        message
    }

    #[test]
    fn the_copy_of_a_message_has_its_signed_form() {
        let mut message = signed(1);
        message.add_field(b"subject", b"  a\n\tb", ID);
        message.end_header();
        let memory = Arc::new(Semaphore::new(100));
        message.add_body(b"text\r\n", &memory);
        let expected: &[u8] =
            b"DKIM-Signature: v=1; a=rsa-sha256\r\nFrom: a@outside.test\r\nsubject:  a\r\n\tb\r\n\r\ntext\r\n";
        assert_eq!(message.copy(), expected);
    }

    #[test]
    fn the_copy_of_a_hostile_message_is_limited() {
        let memory = Arc::new(Semaphore::new(100));
        let mut many = signed(1000);
        many.end_header();
        assert_eq!(many.signatures, MAX_SIGNATURES);

        let mut huge = signed(1);
        for _ in 0..10 {
            huge.add_field(b"X", &vec![b'x'; 100_000], ID);
        }
        let mut numerous = signed(1);
        for _ in 0..MAX_FIELDS {
            numerous.add_field(b"X", b"", ID);
        }
        for mut message in [huge, numerous] {
            message.end_header();
            message.add_body(b"text", &memory);
            assert_eq!(message.copy(), b"From: a@outside.test\r\n\r\n");
        }

        let mut large = signed(1);
        large.end_header();
        large.add_body(&vec![b'x'; 60 * 1024], &memory);
        assert!(!large.out_of_memory);
        large.add_body(&vec![b'x'; 60 * 1024], &memory);
        assert!(large.out_of_memory && large.copy().is_empty());
        assert_eq!(memory.available_permits(), 100);

        let mut unsigned = signed(0);
        unsigned.end_header();
        unsigned.add_body(&vec![b'x'; 200 * 1024], &memory);
        assert_eq!(unsigned.copy(), b"From: a@outside.test\r\n\r\n");
    }

    #[test]
    fn a_message_with_too_many_senders_uses_little_memory() {
        let mut message = Message {
            login: Some("ada@first.test".into()),
            ..Message::default()
        };
        for field in 0..10 * MAX_SENDERS {
            message.add_field(b"From", format!(" a@{field}.test").as_bytes(), ID);
            message.add_field(b"Sender", b" a@outside.test", ID);
        }
        assert_eq!(message.from_fields, 10 * MAX_SENDERS);
        assert_eq!(message.from.addresses.len(), 1);
        assert_eq!(message.from.domains.len(), MAX_SENDERS + 1);
        assert_eq!(message.other_senders.len(), MAX_SENDERS + 1);
    }

    #[test]
    fn a_message_with_too_many_results_or_too_long_senders_is_rejected_without_parsing() {
        let mut message = Message::default();
        for _ in 0..=MAX_FORGED_RESULTS {
            let field = b" mail.first.test; dmarc=pass";
            message.add_field(b"Authentication-Results", field, ID);
        }
        assert_eq!(message.excess, Some(Excess::Results));
        assert_eq!(message.forged_results.len(), MAX_FORGED_RESULTS);

        let from = format!(" a@outside.test{}", "=".repeat(100_000));
        let mut message = Message::default();
        let start = std::time::Instant::now();
        for _ in 0..400 {
            message.add_field(b"From", from.as_bytes(), ID);
        }
        // Each field took half a second with optimization.
        assert!(start.elapsed() < std::time::Duration::from_secs(5));
        assert_eq!(message.excess, Some(Excess::Senders));
        assert!(message.from.domains.is_empty() && message.copy().is_empty());

        let mut message = Message {
            login: Some("ada@first.test".into()),
            ..Message::default()
        };
        message.add_field(b"Sender", &vec![b' '; MAX_SENDERS_SIZE + 1], ID);
        assert_eq!(message.excess, Some(Excess::Senders));
    }

    #[test]
    fn a_signature_of_too_many_fields_is_ignored() {
        let mut message = Message::default();
        let value = format!(" v=1; h={}", "a:".repeat(MAX_SIGNATURE_COLONS + 1));
        message.add_field(b"DKIM-Signature", value.as_bytes(), ID);
        assert_eq!(message.signatures, 0);
    }

    #[test]
    fn forged_results_have_indexes_among_the_fields_of_the_same_name() {
        let mut message = Message::default();
        let mut results = |value: &[u8]| message.add_field(b"authentication-Results ", value, ID);
        results(b" mx.outside.test; spf=pass");
        results(b" mail.first.test; dmarc=pass");
        results(b" mx.outside.test; spf=pass");
        results(b" MAIL.FIRST.TEST; dmarc=pass");
        assert_eq!(message.forged_results, [2, 4]);
    }
}
