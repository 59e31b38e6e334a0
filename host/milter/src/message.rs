//! One message while it is received: what its header names, and a bounded copy for the signatures.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::results;
use super::senders::{Named, SENDERS};

/// Fields that name the sender of a submission besides From. Resent-From and Resent-Sender name who sends again (RFC 5322, section 3.6.6).
const FURTHER_SENDERS: [&str; 3] = ["Sender", "Resent-From", "Resent-Sender"];

/// Signatures that are verified.
const SIGNATURES: usize = 10;

/// The longest signature that is verified, in bytes.
const LONGEST_SIGNATURE: usize = 8 * 1024;

/// Fields, and bytes of all fields together, of a message whose signatures are verified.
const FIELDS: usize = 1000;
const HEADER: usize = 512 * 1024;

/// A message of which the end has not arrived yet.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Who logged in to submit it.
    pub(crate) login: Option<String>,
    /// The envelope sender; empty for the null sender.
    pub(crate) sender: String,
    /// Whom the From fields name, and how many there are.
    pub(crate) from: Named,
    pub(crate) from_fields: usize,
    /// Whom the other fields of a submission name, with their names.
    pub(crate) further: Vec<(&'static str, Named)>,
    /// The numbers of the fields that claim to be this server's results.
    pub(crate) forged: Vec<u32>,
    /// The From fields as they are written.
    from_text: Vec<u8>,
    results: u32,
    fields: usize,
    signatures: usize,
    /// Header and body, as far as they are needed.
    copy: Vec<u8>,
    oversized: bool,
    permits: Option<OwnedSemaphorePermit>,
    /// Whether the memory for bodies was used up.
    pub(crate) no_memory: bool,
}

impl Message {
    /// Adds a header field. `value` is folded with LF.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], authserv_id: &str) {
        let is = |known: &str| name.trim_ascii().eq_ignore_ascii_case(known.as_bytes());
        if is(results::NAME) {
            self.results = self.results.saturating_add(1);
            if results::claims(value, authserv_id) {
                self.forged.push(self.results);
            }
        }
        let line = [name, b":", &with_crlf(value), b"\r\n"].concat();
        if is("From") {
            self.from_fields += 1;
            if self.from_fields == 1 {
                self.from = Named::of(value);
            } else if self.from.domains.len() <= SENDERS {
                self.from.and(Named::of(value));
            }
            if self.from_text.len() < HEADER {
                self.from_text.extend_from_slice(&line);
            }
        }
        let further = FURTHER_SENDERS.into_iter().find(|field| is(field));
        if let Some(field) = further
            && self.login.is_some()
            && self.further.len() <= SENDERS
        {
            self.further.push((field, Named::of(value)));
        }
        if is("DKIM-Signature") {
            if self.signatures == SIGNATURES || value.len() > LONGEST_SIGNATURE {
                return;
            }
            self.signatures += 1;
        }
        self.fields += 1;
        self.oversized |= self.fields > FIELDS || self.copy.len() + line.len() > HEADER;
        if self.oversized {
            self.copy = Vec::new();
        } else {
            self.copy.extend_from_slice(&line);
        }
    }

    /// Ends the header.
    pub(crate) fn end_header(&mut self) {
        if self.oversized {
            // Without signatures only the domain of From counts.
            self.copy.clone_from(&self.from_text);
            self.signatures = 0;
        }
        self.copy.extend_from_slice(b"\r\n");
    }

    /// Adds a piece of the body, if a signature needs it and `memory`, in KiB, has permits left.
    pub(crate) fn body(&mut self, piece: &[u8], memory: &Arc<Semaphore>) {
        if self.login.is_some() || self.signatures == 0 || self.no_memory {
            return;
        }
        let needed = u32::try_from(piece.len().div_ceil(1024)).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(memory).try_acquire_many_owned(needed) else {
            self.no_memory = true;
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

    /// What is verified.
    pub(crate) fn copy(&self) -> &[u8] {
        &self.copy
    }
}

/// Fields arrive with LF and were sent, and signed, with CRLF.
fn with_crlf(value: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(value.len() + 8);
    for (number, line) in value.split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            whole.extend_from_slice(b"\r\n");
        }
        whole.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "mail.first.test";

    fn signed(signatures: usize) -> Message {
        let mut message = Message::default();
        for _ in 0..signatures {
            message.field(b"DKIM-Signature", b" v=1; a=rsa-sha256", ID);
        }
        message.field(b"From", b" a@outside.test", ID);
        message
    }

    #[test]
    fn a_message_is_copied_as_it_was_signed() {
        let mut message = signed(1);
        message.field(b"subject", b"  a\n\tb", ID);
        message.end_header();
        let memory = Arc::new(Semaphore::new(100));
        message.body(b"text\r\n", &memory);
        let expected: &[u8] =
            b"DKIM-Signature: v=1; a=rsa-sha256\r\nFrom: a@outside.test\r\nsubject:  a\r\n\tb\r\n\r\ntext\r\n";
        assert_eq!(message.copy(), expected);
    }

    #[test]
    fn hostile_messages_are_not_copied() {
        let memory = Arc::new(Semaphore::new(100));
        let mut many = signed(1000);
        many.end_header();
        assert_eq!(many.signatures, SIGNATURES);

        let mut huge = signed(1);
        for _ in 0..10 {
            huge.field(b"X", &vec![b'x'; 100_000], ID);
        }
        let mut numerous = signed(1);
        for _ in 0..FIELDS {
            numerous.field(b"X", b"", ID);
        }
        for mut message in [huge, numerous] {
            message.end_header();
            message.body(b"text", &memory);
            assert_eq!(message.copy(), b"From: a@outside.test\r\n\r\n");
        }

        let mut large = signed(1);
        large.end_header();
        large.body(&vec![b'x'; 60 * 1024], &memory);
        assert!(!large.no_memory);
        large.body(&vec![b'x'; 60 * 1024], &memory);
        assert!(large.no_memory && large.copy().is_empty());
        assert_eq!(memory.available_permits(), 100);

        let mut unsigned = signed(0);
        unsigned.end_header();
        unsigned.body(&vec![b'x'; 200 * 1024], &memory);
        assert_eq!(unsigned.copy(), b"From: a@outside.test\r\n\r\n");
    }

    #[test]
    fn a_message_with_too_many_senders_costs_little_memory() {
        let mut message = Message {
            login: Some("ada@first.test".into()),
            ..Message::default()
        };
        for field in 0..10 * SENDERS {
            message.field(b"From", format!(" a@{field}.test").as_bytes(), ID);
            message.field(b"Sender", b" a@outside.test", ID);
        }
        assert_eq!(message.from_fields, 10 * SENDERS);
        assert_eq!(message.from.addresses.len(), 1);
        assert_eq!(message.from.domains.len(), SENDERS + 1);
        assert_eq!(message.further.len(), SENDERS + 1);
    }

    #[test]
    fn fields_that_claim_to_be_this_servers_are_counted_among_their_kind() {
        let mut message = Message::default();
        let mut results = |value: &[u8]| message.field(b"authentication-Results ", value, ID);
        results(b" mx.outside.test; spf=pass");
        results(b" mail.first.test; dmarc=pass");
        results(b" mx.outside.test; spf=pass");
        results(b" MAIL.FIRST.TEST; dmarc=pass");
        assert_eq!(message.forged, [2, 4]);
    }
}
