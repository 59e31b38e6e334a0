//! Fills the mailbox of the benchmarks. Its content is the same in every run.

use anyhow::Context as _;

use crate::imap;
use crate::messages::{Random, message_with_file, newsletter, random_message, short_message};
use crate::service::Service;

/// Number of messages in one APPEND command.
const BATCH: usize = 200;

/// Maximum number of messages on a page of a listing.
const MAX_PAGE: usize = 100;

/// Number of folders in addition to the default folders.
const EXTRA_FOLDERS: [&str; 5] = [
    "Family",
    "Family/Holidays",
    "Projects",
    "Receipts",
    "Travel",
];

/// The content of the mailbox.
pub(crate) struct Mailbox {
    /// Number of messages in the inbox.
    pub(crate) messages: usize,
    /// A message of 20 kB.
    pub(crate) newsletter: KnownMessage,
    /// A message with an attachment of 1 MB.
    pub(crate) small_attachment: KnownMessage,
    /// A message with an attachment of 20 MB.
    pub(crate) large_attachment: KnownMessage,
}

/// A message that is requested individually.
pub(crate) struct KnownMessage {
    /// The `uid` in the API.
    pub(crate) uid: u64,
    /// The position in the inbox, which is also the IMAP UID, because no message was ever deleted.
    pub(crate) imap_uid: usize,
}

/// Fills the inbox with `messages` messages. The three messages that are requested individually are in the middle.
pub(crate) fn fill(service: &Service, messages: usize) -> anyhow::Result<Mailbox> {
    let mut client = service.imap()?;
    for folder in EXTRA_FOLDERS {
        client.run(&format!("CREATE {folder}"))?;
    }
    let mut random = Random(1);
    let middle = messages / 2;
    let generated = (1..=messages).map(|number| match number.checked_sub(middle) {
        Some(0) => newsletter(number, 20_000, &mut random),
        Some(1) => message_with_file(number, 1024 * 1024, &mut random),
        Some(2) => message_with_file(number, 20 * 1024 * 1024, &mut random),
        _ => random_message(number, &mut random),
    });
    append(&mut client, "INBOX", generated)?;
    let mut http = service.http()?;
    let mut find = |imap_uid: usize| -> anyhow::Result<KnownMessage> {
        // With one message per page, the page number counts from the newest message.
        let page = messages - imap_uid + 1;
        let path = format!("/api/v1/mail/folders/INBOX/messages?limit=1&page={page}");
        let listing = http.json(&path)?;
        let message = &listing["messages"][0];
        anyhow::ensure!(
            message["seq"] == imap_uid,
            "the listing has an unexpected message: {message}"
        );
        Ok(KnownMessage {
            uid: message["uid"].as_u64().context("the message has no uid")?,
            imap_uid,
        })
    };
    Ok(Mailbox {
        messages,
        newsletter: find(middle)?,
        small_attachment: find(middle + 1)?,
        large_attachment: find(middle + 2)?,
    })
}

/// Creates a folder with `messages` short messages.
pub(crate) fn create_folder(service: &Service, name: &str, messages: usize) -> anyhow::Result<()> {
    let mut client = service.imap()?;
    client.run(&format!("CREATE {name}"))?;
    let mut random = Random(2);
    append(
        &mut client,
        name,
        (1..=messages).map(|number| short_message(name, number, &mut random)),
    )
}

/// Returns the `uid` values of the newest `count` messages of a folder, newest first.
pub(crate) fn newest_uids(
    service: &Service,
    folder: &str,
    count: usize,
) -> anyhow::Result<Vec<u64>> {
    let mut http = service.http()?;
    let mut uids = Vec::new();
    for page in 1..=count.div_ceil(MAX_PAGE) {
        let path = format!("/api/v1/mail/folders/{folder}/messages?limit={MAX_PAGE}&page={page}");
        let listing = http.json(&path)?;
        let messages = listing["messages"]
            .as_array()
            .context("the listing has no messages")?;
        uids.extend(
            messages
                .iter()
                .filter_map(|message| message["uid"].as_u64()),
        );
    }
    uids.truncate(count);
    anyhow::ensure!(uids.len() == count, "{folder} has {} messages", uids.len());
    Ok(uids)
}

fn append(
    client: &mut imap::Client,
    folder: &str,
    messages: impl Iterator<Item = Vec<u8>>,
) -> anyhow::Result<()> {
    let mut batch = Vec::new();
    for message in messages {
        batch.push(message);
        if batch.len() == BATCH {
            client.append(folder, &batch)?;
            batch.clear();
        }
    }
    if !batch.is_empty() {
        client.append(folder, &batch)?;
    }
    Ok(())
}
