//! Fills the mailboxes of the benchmarks. Their content is the same in every run.

use anyhow::Context as _;

use crate::imap;
use crate::messages::{
    Random, message_to_many, message_with_file, message_with_parts, newsletter, random_message,
    short_message,
};
use crate::service::{Account, Service};

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

/// The content of a mailbox.
pub(crate) struct Mailbox {
    /// Number of messages in the inbox.
    pub(crate) messages: usize,
    known: Vec<KnownMessage>,
}

/// A message that is requested individually.
#[derive(Clone, Copy)]
pub(crate) struct KnownMessage {
    kind: Known,
    /// The `uid` in the API.
    pub(crate) uid: u64,
    /// The position in the inbox, which is also the IMAP UID, because no message was ever deleted.
    pub(crate) imap_uid: usize,
}

/// The kinds of messages that are requested individually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A text and HTML of 20 kB.
    Newsletter,
    /// An attachment of 1 MB.
    SmallAttachment,
    /// An attachment of 20 MB.
    LargeAttachment,
    /// A text and HTML of 200 kB.
    LongNewsletter,
    /// 5 MB in total: a short text and an attachment.
    MediumAttachment,
    /// 1,000 recipients.
    ManyRecipients,
    /// 200 parts.
    ManyParts,
}

impl Known {
    /// The known messages of the measured account.
    pub(crate) const ALL: [Self; 7] = [
        Self::Newsletter,
        Self::SmallAttachment,
        Self::LargeAttachment,
        Self::LongNewsletter,
        Self::MediumAttachment,
        Self::ManyRecipients,
        Self::ManyParts,
    ];

    fn generate(self, number: usize, random: &mut Random) -> Vec<u8> {
        match self {
            Self::Newsletter => newsletter(number, 20_000, random),
            Self::SmallAttachment => message_with_file(number, 1024 * 1024, random),
            Self::LargeAttachment => message_with_file(number, 20 * 1024 * 1024, random),
            Self::LongNewsletter => newsletter(number, 200_000, random),
            // The encoded attachment has about 5,000,000 bytes.
            Self::MediumAttachment => message_with_file(number, 3_650_000, random),
            Self::ManyRecipients => message_to_many(number, 1_000, random),
            Self::ManyParts => message_with_parts(number, 200, random),
        }
    }
}

impl Mailbox {
    /// Returns a message of the inbox.
    pub(crate) fn known(&self, kind: Known) -> KnownMessage {
        let mut known = self.known.iter().copied();
        known
            .find(|message| message.kind == kind)
            .expect("the mailbox has no such message")
    }
}

/// Fills the inbox of an account with `messages` messages. The messages `known` are in the middle.
pub(crate) fn fill(
    service: &Service,
    account: &Account,
    messages: usize,
    known: &[Known],
) -> anyhow::Result<Mailbox> {
    let mut client = service.imap_of(account)?;
    for folder in EXTRA_FOLDERS {
        client.run(&format!("CREATE {folder}"))?;
    }
    let mut random = Random(1);
    let middle = messages / 2;
    let generated = (1..=messages).map(|number| {
        let kind = number
            .checked_sub(middle)
            .and_then(|index| known.get(index));
        match kind {
            Some(kind) => kind.generate(number, &mut random),
            None => random_message(number, &mut random),
        }
    });
    append(&mut client, "INBOX", generated)?;
    let mut http = service.http_of(&account.token)?;
    let mut find = |(index, kind): (usize, &Known)| -> anyhow::Result<KnownMessage> {
        let imap_uid = middle + index;
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
            kind: *kind,
            uid: message["uid"].as_u64().context("the message has no uid")?,
            imap_uid,
        })
    };
    let known = known
        .iter()
        .enumerate()
        .map(&mut find)
        .collect::<anyhow::Result<_>>()?;
    Ok(Mailbox { messages, known })
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
    account: &Account,
    folder: &str,
    count: usize,
) -> anyhow::Result<Vec<u64>> {
    let mut http = service.http_of(&account.token)?;
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

/// Appends messages to a folder of the client's account.
pub(crate) fn append(
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
