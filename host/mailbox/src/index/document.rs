//! Converts a message to a document of the search index. The document contains the summary of the
//! message, so a search needs no data from the mail server.

use std::collections::HashSet;

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use latchmail_mime::codes::{has_codes, has_links};
use latchmail_mime::preview::Preview;
use latchmail_mime::{self as mime, Header};
use latchmail_search::threads::ThreadKeys;
use latchmail_search::{Document, Participant};
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::error::Error;
use crate::message::parts::MessageParts;
use crate::message::summary::summary;
use crate::message::thread_ids::thread_fields;
use crate::message::types::{Address, Summary};

/// The data of a message for its document.
#[derive(Debug)]
pub(super) struct MessageDocument {
    pub(super) number: MessageNumber,
    pub(super) arrival: i64,
    summary: Summary,
    cc: Vec<Address>,
    attachments: Vec<String>,
    text: String,
    /// The visible text of the HTML, if the HTML contains words that `text` does not contain.
    other_text: String,
    /// Whether the message has a code or a link for signing in.
    has_codes: bool,
    pub(super) thread: ThreadKeys,
}

impl MessageDocument {
    /// Creates the document of the message with this number.
    pub(super) fn new(number: MessageNumber, parts: &MessageParts) -> Self {
        let MessageParts {
            message,
            structure,
            texts,
        } = parts;
        let (head, _) = mime::split(&message.whole);
        let header = Header::of(head, bounds::LISTED_FIELD);
        let is_complete = message.whole.len() < bounds::FIRST;
        let preview = Preview::of_message(structure, &message.whole, is_complete).text;
        let content = mime::content(structure, texts);
        // The limit for summaries can cut off a long References field. The thread is computed from
        // more references, so parse the header again with the higher limit.
        let thread = if header.truncated {
            thread_fields(&Header::of(head, bounds::FIELD)).keys(number)
        } else {
            thread_fields(&header).keys(number)
        };
        let html = content.html.as_deref();
        let (text, other_text) = searchable_texts(content.text, html);
        let texts = [&*header.subject, &text, &other_text];
        let has_codes = has_codes(&texts) || html.is_some_and(|html| has_links(html, &texts));
        Self {
            number,
            has_codes,
            arrival: message.internal_date.map_or(0, Timestamp::millis),
            text,
            other_text,
            attachments: mime::sections(structure)
                .map(|section| section.attachment.filename)
                .collect(),
            summary: summary(number, message, &header, preview),
            cc: header.cc,
            thread,
        }
    }

    /// Returns the date of the message, in milliseconds since 1970.
    pub(super) fn date(&self) -> i64 {
        self.summary.date.millis()
    }

    /// Calls `add` with the document, and returns the result of `add`.
    pub(super) fn with_document<T>(
        &self,
        add: impl FnOnce(&Document<'_>) -> T,
    ) -> Result<T, serde_json::Error> {
        let stored = serde_json::to_vec(&StoredSummary::from(&self.summary))?;
        let (from, to, cc) = (
            participants(&self.summary.from),
            participants(&self.summary.to),
            participants(&self.cc),
        );
        let attachments: Vec<&str> = self.attachments.iter().map(String::as_str).collect();
        Ok(add(&Document {
            number: self.number,
            arrival: self.arrival,
            date: self.date(),
            size: self.summary.size,
            subject: &self.summary.subject,
            from: &from,
            to: &to,
            cc: &cc,
            has_attachment: !attachments.is_empty(),
            has_codes: self.has_codes,
            attachments: &attachments,
            text: &self.text,
            other_text: &self.other_text,
            thread: self.thread.clone(),
            summary: &stored,
        }))
    }
}

fn participants(addresses: &[Address]) -> Vec<Participant<'_>> {
    addresses
        .iter()
        .map(|address| Participant {
            name: &address.name,
            address: &address.address,
        })
        .collect()
}

/// Returns the plain text, and the visible text of the HTML if the HTML contains a word that the
/// plain text does not contain.
fn searchable_texts(text: Option<String>, html: Option<&str>) -> (String, String) {
    let html = html.map(latchmail_html::visible_text).unwrap_or_default();
    let Some(text) = text else {
        return (html, String::new());
    };
    let is_contained = {
        let known: HashSet<&str> = words(&text).collect();
        words(&html).all(|word| known.contains(word))
    };
    (text, if is_contained { String::new() } else { html })
}

/// Returns the words of a text without punctuation, because the plain text and the HTML of a
/// message often have different punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

/// The stored form of a summary. Flags and position are not stored, because flags and positions
/// change.
#[derive(Debug, Serialize, Deserialize)]
struct StoredSummary {
    #[serde(rename = "f")]
    from: Vec<(String, String)>,
    #[serde(rename = "t")]
    to: Vec<(String, String)>,
    #[serde(rename = "s")]
    subject: String,
    #[serde(rename = "d")]
    date: i64,
    #[serde(rename = "z")]
    size: u64,
    #[serde(rename = "p")]
    preview: String,
}

impl From<&Summary> for StoredSummary {
    fn from(summary: &Summary) -> Self {
        let pairs = |addresses: &[Address]| {
            let pair = |address: &Address| (address.name.clone(), address.address.clone());
            addresses.iter().map(pair).collect()
        };
        Self {
            from: pairs(&summary.from),
            to: pairs(&summary.to),
            subject: summary.subject.clone(),
            date: summary.date.millis(),
            size: summary.size,
            preview: summary.preview.clone(),
        }
    }
}

/// The senders in a [`StoredSummary`].
#[derive(Deserialize)]
struct StoredSenders {
    #[serde(rename = "f")]
    from: Vec<(String, String)>,
}

fn parse<'s, T: Deserialize<'s>>(stored: &'s [u8]) -> Result<T, Error> {
    serde_json::from_slice(stored)
        .map_err(|error| Error::Internal(format!("invalid summary in the index: {error}")))
}

fn addresses(pairs: Vec<(String, String)>) -> Vec<Address> {
    let address = |(name, address)| Address { name, address };
    pairs.into_iter().map(address).collect()
}

/// Returns the senders in the summary that a document contains.
///
/// # Errors
/// Returns an error if the stored data are invalid.
pub(super) fn stored_senders(stored: &[u8]) -> Result<Vec<Address>, Error> {
    let stored: StoredSenders = parse(stored)?;
    Ok(addresses(stored.from))
}

/// Returns the summary that a document contains, without flags, position and thread.
///
/// # Errors
/// Returns an error if the stored data are invalid.
pub(super) fn stored_summary(number: MessageNumber, stored: &[u8]) -> Result<Summary, Error> {
    let stored: StoredSummary = parse(stored)?;
    Ok(Summary {
        number,
        seq: 0,
        from: addresses(stored.from),
        to: addresses(stored.to),
        subject: stored.subject,
        date: Timestamp::from_millis(stored.date),
        flags: Vec::new(),
        size: stored.size,
        preview: stored.preview,
        thread_id: String::new(),
    })
}
