//! The contents of a folder, written and read by another IMAP client.
//!
//! Folder names are in the form of the protocol: modified UTF-7 beyond ASCII (RFC 3501, section
//! 5.1.3).

use std::collections::BTreeSet;

use async_imap::Session;
use async_imap::types::Flag;
use futures_util::TryStreamExt as _;
use tokio::net::TcpStream;

/// A connection of another IMAP client.
pub type Imap = Session<TcpStream>;

/// A stored message.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    /// Its IMAP UID, which is not the service's number.
    pub imap_uid: u32,
    /// Its flags without `\Recent`, which depends on the connection.
    pub flags: BTreeSet<String>,
    /// The complete message.
    pub bytes: Vec<u8>,
}

impl StoredMessage {
    /// Returns the first header field with that name, unfolded but not decoded.
    pub fn header(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let head = head.replace("\r\n ", " ").replace("\r\n\t", " ");
        head.lines().find_map(|line| {
            let (given, value) = line.split_once(':')?;
            given
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }

    /// Returns the message's subject, not decoded.
    pub fn subject(&self) -> String {
        self.header("subject").unwrap_or_default()
    }
}

/// Returns the messages of a folder, in the order of their IMAP UIDs.
pub async fn stored_messages(client: &mut Imap, folder: &str) -> Vec<StoredMessage> {
    client.select(folder).await.unwrap();
    let fetched = client.uid_fetch("1:*", "(UID FLAGS BODY.PEEK[])").await;
    let fetched: Vec<_> = fetched.unwrap().try_collect().await.unwrap();
    let mut stored: Vec<StoredMessage> = fetched
        .iter()
        .map(|message| StoredMessage {
            imap_uid: message.uid.unwrap(),
            flags: message
                .flags()
                .filter(|flag| *flag != Flag::Recent)
                .map(|flag| text(&flag).to_owned())
                .collect(),
            bytes: message.body().unwrap().to_vec(),
        })
        .collect();
    stored.sort_by_key(|message| message.imap_uid);
    stored
}

/// Returns the subjects of a folder's messages, in the order of their IMAP UIDs.
pub async fn subjects(client: &mut Imap, folder: &str) -> Vec<String> {
    let stored = stored_messages(client, folder).await;
    stored.iter().map(StoredMessage::subject).collect()
}

/// Adds a message with that subject to a folder.
pub async fn append_message(client: &mut Imap, folder: &str, subject: &str) {
    let message = message_with_subject(subject);
    client.append(folder, None, None, message).await.unwrap();
}

/// Changes the flags of a message with a STORE command:
/// `mark(&mut client, "INBOX", 7, "+FLAGS (\\Deleted)")`.
pub async fn store_flags(client: &mut Imap, folder: &str, imap_uid: u32, command: &str) {
    client.select(folder).await.unwrap();
    let marked = client.uid_store(imap_uid.to_string(), command).await;
    marked.unwrap().try_collect::<Vec<_>>().await.unwrap();
}

/// Returns a message with that subject, and the same text as its body.
pub fn message_with_subject(subject: &str) -> String {
    let id = subject.replace(' ', "-");
    format!(
        "From: Grace Hopper <grace@outside.test>\r\nTo: ada@first.test\r\nSubject: {subject}\r\n\
         Date: Thu, 19 Nov 2026 10:00:00 +0100\r\nMessage-ID: <{id}@outside.test>\r\n\r\nThis is {subject}.\r\n"
    )
}

/// Returns pseudo-random bytes, which do not compress.
pub fn random_bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[6]
    };
    (0..length).map(|_| next()).collect()
}

fn text<'a>(flag: &'a Flag<'_>) -> &'a str {
    match flag {
        Flag::Seen => "\\Seen",
        Flag::Answered => "\\Answered",
        Flag::Flagged => "\\Flagged",
        Flag::Deleted => "\\Deleted",
        Flag::Draft => "\\Draft",
        Flag::Recent => "\\Recent",
        Flag::MayCreate => "\\*",
        Flag::Custom(keyword) => keyword,
    }
}
