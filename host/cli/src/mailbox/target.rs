//! Stores messages in a mailbox over IMAP, and finds the messages that a folder already contains.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_imap::flag::Flag;
use latchmail_imap::folder_change::FolderOutcome;
use latchmail_imap::{
    Connector, Error, INBOX, MessageRef, NewMessage, Session, Uid, uids_between, utf7,
};
use sha2::{Digest as _, Sha256};

use super::source::{Message, network_line_ends};

/// The number of bytes of a message that its fingerprint covers, beside the size.
const BEGINNING: usize = 16 * 1024;
/// The number of messages that one command reads.
const BATCH: usize = 200;
/// The number of UIDs of one SEARCH.
const WINDOW: u32 = 10_000;

/// The hash of the beginning of a message, with its size. Does not cover the flags.
type Fingerprint = ([u8; 16], u64);

/// The result of [`Target::store`].
#[derive(Debug)]
pub(super) enum Stored {
    /// The message is new.
    New,
    /// The folder contains the message.
    Existing,
    /// The message cannot be stored, for this reason.
    Refused(String),
}

/// A mailbox.
pub(super) struct Target {
    session: Session,
    delimiter: String,
    /// The path of the current folder.
    folder: String,
    /// The messages that were in the current folder before the import, with their numbers of
    /// copies.
    existing: HashMap<Fingerprint, u32>,
}

impl Target {
    /// Logs in.
    pub(super) async fn connect(
        config: &config::Imap,
        credential: MailCredential,
    ) -> anyhow::Result<Self> {
        let connector = Connector::new(config)?;
        let session = connector.logged_in(&credential).await;
        let mut session = session.context("cannot log in at the mail server")?;
        let listed = session.list().await?;
        let inbox = listed.iter().find(|folder| folder.path == INBOX);
        Ok(Self {
            session,
            delimiter: inbox.map_or_else(|| "/".to_owned(), |inbox| inbox.delimiter.clone()),
            folder: String::new(),
            existing: HashMap::new(),
        })
    }

    /// Opens a folder, and creates the folder if it does not exist.
    pub(super) async fn open(&mut self, segments: &[String]) -> anyhow::Result<()> {
        let path = if self.delimiter.is_empty() {
            segments.join(".")
        } else {
            // A segment of another server can contain the separator of this server.
            let segments = segments
                .iter()
                .map(|part| part.replace(&self.delimiter, "_"));
            segments.collect::<Vec<_>>().join(&*self.delimiter)
        };
        let first = segments
            .first()
            .is_some_and(|first| first.eq_ignore_ascii_case(INBOX));
        let path = if first && segments.len() == 1 {
            INBOX.to_owned()
        } else {
            path
        };
        let listed = self.session.list().await?;
        if !listed
            .iter()
            .any(|folder| folder.selectable && folder.path == path)
        {
            let name = utf7::name(&path).with_context(|| format!("{path} is no folder name"))?;
            match self.session.create_folder(&name).await? {
                FolderOutcome::Changed | FolderOutcome::Exists => {}
                FolderOutcome::Missing | FolderOutcome::InvalidName => {
                    bail!("the mail server cannot have a folder {path}");
                }
            }
            self.session
                .try_folder_commands(&[("SUBSCRIBE", name)])
                .await?;
        }
        self.existing = existing(&mut self.session, &path).await?;
        self.folder = path;
        Ok(())
    }

    /// Stores a message in the open folder, unless the folder already contained it.
    pub(super) async fn store(&mut self, message: Message) -> anyhow::Result<Stored> {
        let stored = fingerprint(&message.bytes, message.bytes.len() as u64);
        // Dovecot returns `\r\n` for each line end, also if the stored message has `\n`.
        let converted = network_line_ends(message.bytes.clone());
        let converted = fingerprint(&converted, converted.len() as u64);
        for found in [converted, stored] {
            if let Some(copies) = self.existing.get_mut(&found).filter(|copies| **copies > 0) {
                *copies -= 1;
                return Ok(Stored::Existing);
            }
        }
        if memchr::memchr(0, &message.bytes).is_some() {
            let reason = format!("a message for {} contains a NUL byte", self.folder);
            return Ok(Stored::Refused(reason));
        }
        let flags: Vec<Flag> = message
            .flags
            .iter()
            .filter_map(|name| Flag::restored(name))
            .collect();
        let new = NewMessage {
            path: &self.folder,
            flags: &flags,
            received_at: message.received_at,
            bytes: message.bytes.into(),
        };
        if !self.session.begin_append(new, true).await? {
            bail!("{} is no folder name", self.folder);
        }
        match self.session.end_append(None).await {
            Ok(Some(_)) => Ok(Stored::New),
            Ok(None) => bail!("the folder {} was deleted", self.folder),
            Err(Error::OverQuota) => bail!("the mailbox is full"),
            Err(Error::No(text)) => Ok(Stored::Refused(format!(
                "the mail server refused a message for {}: {text}",
                self.folder
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the fingerprints of the messages in a folder.
async fn existing(session: &mut Session, path: &str) -> anyhow::Result<HashMap<Fingerprint, u32>> {
    let mut existing = HashMap::new();
    let (mut from, mut window) = (1_u32, WINDOW);
    loop {
        let to = from.saturating_add(window - 1);
        let found = uids_between(session, path, (from, to)).await?;
        let (opened, uids) = found.with_context(|| format!("the folder {path} was deleted"))?;
        let message = |uid: &Uid| MessageRef {
            path,
            uid_validity: opened.uid_validity,
            uid: *uid,
        };
        for uids in uids.chunks(BATCH) {
            let refs: Vec<MessageRef<'_>> = uids.iter().map(message).collect();
            for fetched in session.beginnings_at(&refs, BEGINNING).await? {
                let print = fingerprint(&fetched.whole, u64::from(fetched.size));
                *existing.entry(print).or_insert(0) += 1;
            }
        }
        if opened.uid_next == 0 {
            // The server does not report the highest UID.
            window = u32::MAX;
        } else if to >= opened.uid_next - 1 {
            return Ok(existing);
        }
        if to == u32::MAX {
            return Ok(existing);
        }
        from = to + 1;
    }
}

fn fingerprint(beginning: &[u8], size: u64) -> Fingerprint {
    let digest = Sha256::digest(&beginning[..beginning.len().min(BEGINNING)]);
    let mut hash = [0; 16];
    hash.copy_from_slice(&digest[..16]);
    (hash, size)
}
