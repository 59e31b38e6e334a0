//! The corpus of mail in `tests/mail`: puts the files into a mailbox and reads them as a client
//! does.
//!
//! `tests/mail/answers` has the expected responses, and `tests/mail/README.md` describes each file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use async_imap::types::Fetch;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use crate::{Person, imap};

/// The arrival time of messages that are appended over IMAP.
const ARRIVED: &str = "20-Nov-2026 08:00:00 +0000";

/// The folder of those messages.
const APPENDED: &str = "Appended";

/// Valid messages that Postfix would change: it ends the header at a line that is not a field, and
/// completes addresses.
const CHANGED_BY_POSTFIX: [&str; 4] = [
    "address-odd",
    "address-unquoted",
    "field-without-value",
    "words-whole-address",
];

/// A message of the corpus.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The file's name without its extension.
    pub name: String,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A message of the corpus as the API returns it.
#[derive(Clone, Debug)]
pub struct ReadMessage {
    /// The file.
    pub sample: Sample,
    /// Whether Postfix delivered it, and so added header fields at its beginning.
    pub delivered: bool,
    /// Its entry in the listing of its folder.
    pub summary: Value,
    /// The message.
    pub detail: Value,
}

/// Returns the folder of the files.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("mail")
}

/// Returns all messages, sorted by name.
pub fn samples() -> Vec<Sample> {
    let mut samples: Vec<Sample> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "eml"))
        .map(|path| Sample {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            bytes: std::fs::read(path).unwrap(),
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!samples.is_empty());
    samples
}

impl Sample {
    /// Returns whether Postfix accepts and delivers the message byte for byte.
    fn survives_postfix(&self) -> bool {
        let text = &self.bytes;
        let lines = text.split_inclusive(|b| *b == b'\n').all(|line| {
            let line = line.strip_suffix(b"\r\n").unwrap_or(b"\n");
            line.len() < 998 && !line.iter().any(|b| b"\r\n\0".contains(b))
        });
        // Postfix adds missing fields.
        let lower = [b"\n", text.to_ascii_lowercase().as_slice()].concat();
        let fields = ["\nfrom:", "\ndate:", "\nmessage-id:"];
        let fields = fields
            .iter()
            .all(|field| contains(&lower, field.as_bytes()));
        let name = self.name.as_str();
        // Without a readable date, the API returns the time of arrival, which must be the same in
        // every run.
        let timeless = name == "date-unreadable";
        lines && fields && !timeless && !CHANGED_BY_POSTFIX.contains(&name)
    }
}

fn contains(text: &[u8], piece: &[u8]) -> bool {
    text.windows(piece.len()).any(|window| window == piece)
}

/// Puts the whole corpus into a person's mailbox and reads it. Messages that Postfix would change
/// are appended over IMAP; the others are delivered.
pub async fn load(person: &Person<'_>) -> Vec<ReadMessage> {
    let (delivered, appended): (Vec<_>, Vec<_>) =
        samples().into_iter().partition(Sample::survives_postfix);
    futures_util::stream::iter(&delivered)
        .for_each_concurrent(8, |sample| {
            // The SMTP client adds a line break of its own before the final dot.
            let text = sample.bytes.strip_suffix(b"\r\n").unwrap();
            person.service.deliver_raw(&person.address, text)
        })
        .await;
    let mut client = imap(person).await;
    client.create(APPENDED).await.unwrap();
    for sample in &appended {
        client
            .append(
                APPENDED,
                None,
                Some(&format!("\"{ARRIVED}\"")),
                &sample.bytes,
            )
            .await
            .unwrap();
    }
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while person.total("INBOX").await < delivered.len() as u64 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the mail did not arrive"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Messages that are sent concurrently arrive in any order.
    client.select("INBOX").await.unwrap();
    let stored: Vec<_> = client
        .fetch("1:*", "BODY.PEEK[]")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    let (mut positions, mut changed) = (HashMap::new(), Vec::new());
    for sample in delivered {
        let is_unchanged = |stored: &&Fetch| stored.body().unwrap().ends_with(&sample.bytes);
        match stored.iter().find(is_unchanged) {
            Some(position) => drop(positions.insert(u64::from(position.message), sample)),
            None => changed.push(sample.name),
        }
    }
    assert!(changed.is_empty(), "Postfix changed {changed:?}");
    let mut read = read_folder(person, "INBOX", true, positions).await;
    let positions = (1..).zip(appended).collect();
    read.extend(read_folder(person, APPENDED, false, positions).await);
    read.sort_by(|a, b| a.sample.name.cmp(&b.sample.name));
    read
}

/// Reads the messages of a folder. `places` maps them to their positions.
async fn read_folder(
    person: &Person<'_>,
    folder: &str,
    delivered: bool,
    mut positions: HashMap<u64, Sample>,
) -> Vec<ReadMessage> {
    let mut read = Vec::new();
    for page in 1.. {
        let line = format!("GET /api/v1/mail/folders/{folder}/messages?limit=100&page={page}");
        let listing = person.send(&line).await.succeeds(200);
        let summaries = listing["messages"].as_array().unwrap();
        if summaries.is_empty() {
            break;
        }
        for summary in summaries {
            let line = format!("GET /api/v1/mail/messages/{}", summary["uid"]);
            read.push(ReadMessage {
                sample: positions.remove(&summary["seq"].as_u64().unwrap()).unwrap(),
                delivered,
                summary: summary.clone(),
                detail: person.send(&line).await.succeeds(200),
            });
        }
    }
    assert!(positions.is_empty(), "{folder} lacks {positions:?}");
    read
}
