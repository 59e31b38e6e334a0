//! Limits the size of a message's fields in a result, except `text` and `html`. For example, a
//! message can have a thousand recipients. Warnings list the shortened fields.

use latchmail_common::sending::drafts::DraftContent;
use latchmail_common::threads::Thread;
use latchmail_common::{Address, Detail, Headline, NewText, Snippet, Summary};

use crate::cut;

/// The maximum number of addresses in a field.
const MAX_ADDRESSES: usize = 50;
/// The maximum number of attachments.
const MAX_ATTACHMENTS: usize = 100;
/// The maximum number of Message-IDs of a thread. The last Message-IDs are kept, because they
/// identify the nearest messages.
const MAX_REFERENCES: usize = 20;
/// The maximum number of flags and keywords.
const MAX_FLAGS: usize = 50;
/// The maximum length of a subject, a snippet or a Message-ID, in characters. Lines of a mail have
/// the same limit (RFC 5322, section 2.1.1).
const MAX_LINE: usize = 998;
/// The maximum length of a name, in characters.
const MAX_NAME: usize = 255;
/// The maximum length of an address, in characters.
const MAX_ADDRESS: usize = 320;

/// Limits the fields of a message, and records the names of the shortened fields.
#[derive(Default)]
pub(super) struct Bounds {
    cut: Vec<&'static str>,
}

impl Bounds {
    /// Limits the fields of a message in a message list.
    pub(super) fn summary(&mut self, summary: &mut Summary) {
        self.headline(&mut summary.headline);
    }

    /// Limits a snippet of a search result. Removes the matches that are not in the rest of the
    /// text.
    pub(super) fn snippet(&mut self, snippet: &mut Snippet) {
        self.text("snippet", &mut snippet.text, MAX_LINE);
        snippet.matches.retain(|one| one.end as usize <= MAX_LINE);
    }

    /// Limits all fields of a message except `text` and `html`.
    pub(super) fn detail(&mut self, detail: &mut Detail) {
        self.headline(&mut detail.headline);
        self.addresses("cc", &mut detail.cc);
        self.addresses("replyTo", &mut detail.reply_to);
        self.text("messageId", &mut detail.message_id, MAX_LINE);
        if let Some(id) = &mut detail.in_reply_to {
            self.text("inReplyTo", id, MAX_LINE);
        }
        let early = detail.references.len().saturating_sub(MAX_REFERENCES);
        detail.references.drain(..early);
        self.note("references", early > 0);
        for id in &mut detail.references {
            self.text("references", id, MAX_LINE);
        }
        self.list("attachments", &mut detail.attachments, MAX_ATTACHMENTS);
        for attachment in &mut detail.attachments {
            self.file(&mut attachment.filename, &mut attachment.content_type);
        }
        if let NewText::Value(Some(text)) = &mut detail.new_text {
            let piece = cut::piece(std::mem::take(text), 0);
            *text = piece.text;
            self.note("newText", piece.next.is_some());
        }
        if !self.cut.is_empty() {
            detail.truncated = Some(true);
        }
    }

    /// Limits the fields of a thread, except those of its newest message.
    pub(super) fn thread(&mut self, thread: &mut Thread) {
        self.text("subject", &mut thread.subject, MAX_LINE);
        self.addresses("participants", &mut thread.participants);
    }

    /// Limits the name and the media type of a file.
    pub(super) fn file(&mut self, filename: &mut String, content_type: &mut String) {
        self.text("file names", filename, MAX_NAME);
        self.text("contentType", content_type, MAX_NAME);
    }

    /// Limits all fields of a draft, and removes its header fields.
    pub(super) fn draft(&mut self, draft: &mut DraftContent) {
        let lists = [
            ("to", &mut draft.to),
            ("cc", &mut draft.cc),
            ("bcc", &mut draft.bcc),
            ("replyTo", &mut draft.reply_to),
        ];
        for (part, list) in lists {
            self.list(part, list, MAX_ADDRESSES);
            for one in list {
                self.text(part, one, MAX_NAME + MAX_ADDRESS);
            }
        }
        for (part, text) in [
            ("from", &mut draft.from),
            ("from", &mut draft.from_name),
            ("inReplyTo", &mut draft.in_reply_to),
        ] {
            if let Some(text) = text {
                self.text(part, text, MAX_LINE);
            }
        }
        self.text("subject", &mut draft.subject, MAX_LINE);
        let early = draft.references.len().saturating_sub(MAX_REFERENCES);
        draft.references.drain(..early);
        self.note("references", early > 0);
        for id in &mut draft.references {
            self.text("references", id, MAX_LINE);
        }
        self.note("headers", !draft.headers.is_empty());
        draft.headers.clear();
        self.list("attachments", &mut draft.attachments, MAX_ATTACHMENTS);
        for attachment in &mut draft.attachments {
            self.file(&mut attachment.filename, &mut attachment.content_type);
            if let Some(id) = &mut attachment.content_id {
                self.text("contentId", id, MAX_NAME);
            }
        }
        draft.truncated |= !self.cut.is_empty();
    }

    /// Returns a warning with the names of the shortened fields, or `None` if no field was
    /// shortened. The warning contains no text of the message.
    pub(super) fn warning(&self, message: &str) -> Option<String> {
        let cut = || self.cut.join(", ");
        (!self.cut.is_empty()).then(|| format!("{message} was cut in: {}", cut()))
    }

    fn headline(&mut self, headline: &mut Headline) {
        self.addresses("from", &mut headline.from);
        self.addresses("to", &mut headline.to);
        self.text("subject", &mut headline.subject, MAX_LINE);
        self.list("flags", &mut headline.flags, MAX_FLAGS);
        for flag in &mut headline.flags {
            self.text("flags", flag, MAX_NAME);
        }
    }

    fn addresses(&mut self, part: &'static str, addresses: &mut Vec<Address>) {
        self.list(part, addresses, MAX_ADDRESSES);
        for one in addresses {
            self.text(part, &mut one.name, MAX_NAME);
            self.text(part, &mut one.address, MAX_ADDRESS);
        }
    }

    fn list<T>(&mut self, part: &'static str, list: &mut Vec<T>, max: usize) {
        self.note(part, list.len() > max);
        list.truncate(max);
    }

    fn text(&mut self, part: &'static str, text: &mut String, max: usize) {
        if let Some((end, _)) = text.char_indices().nth(max) {
            text.truncate(end);
            self.note(part, true);
        }
    }

    fn note(&mut self, part: &'static str, is_cut: bool) {
        if is_cut && !self.cut.contains(&part) {
            self.cut.push(part);
        }
    }
}
