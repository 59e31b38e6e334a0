//! The mailbox of the benchmarks. It is the same in every run and has realistic messages.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::imap;
use crate::service::Service;

/// Number of messages in one APPEND.
const AT_ONCE: usize = 200;

/// Number of messages in a page of a listing, the maximum of the route.
const PAGE: usize = 100;

/// Number of folders in addition to the default folders.
const FURTHER: [&str; 5] = [
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
    pub(crate) letter: Known,
    /// A message with a file of 1 MB.
    pub(crate) file: Known,
    /// A message with a file of 20 MB.
    pub(crate) film: Known,
}

/// A message that is requested individually.
pub(crate) struct Known {
    /// The service's `uid`.
    pub(crate) uid: u64,
    /// The position in the inbox, which is also the IMAP UID, because no message was ever deleted.
    pub(crate) imap_uid: usize,
}

/// Fills the inbox with `messages` messages of all kinds, with the three individual messages in the middle.
pub(crate) fn fill(service: &Service, messages: usize) -> anyhow::Result<Mailbox> {
    let mut client = service.imap()?;
    for folder in FURTHER {
        client.run(&format!("CREATE {folder}"))?;
    }
    let mut random = Random(1);
    let known = messages / 2;
    let all = (1..=messages).map(|number| match number.checked_sub(known) {
        Some(0) => newsletter(number, 20_000, &mut random),
        Some(1) => with_file(number, 1024 * 1024, &mut random),
        Some(2) => with_file(number, 20 * 1024 * 1024, &mut random),
        _ => usual(number, &mut random),
    });
    append(&mut client, "INBOX", all)?;
    let mut http = service.http()?;
    let mut find = |imap_uid: usize| -> anyhow::Result<Known> {
        // With one message per page, the page number counts from the newest message.
        let page = messages - imap_uid + 1;
        let path = format!("/api/v1/mail/folders/INBOX/messages?limit=1&page={page}");
        let listing = http.json(&path)?;
        let message = &listing["messages"][0];
        anyhow::ensure!(message["seq"] == imap_uid, "another message: {message}");
        Ok(Known {
            uid: message["uid"].as_u64().context("no number")?,
            imap_uid,
        })
    };
    Ok(Mailbox {
        messages,
        letter: find(known)?,
        file: find(known + 1)?,
        film: find(known + 2)?,
    })
}

/// Creates a folder with `messages` short messages.
pub(crate) fn folder(service: &Service, name: &str, messages: usize) -> anyhow::Result<()> {
    let mut client = service.imap()?;
    client.run(&format!("CREATE {name}"))?;
    let mut random = Random(2);
    append(
        &mut client,
        name,
        (1..=messages).map(|number| short(name, number, &mut random)),
    )
}

/// Returns the service's `uids` of the newest `count` messages of a folder, newest first.
pub(crate) fn newest(service: &Service, folder: &str, count: usize) -> anyhow::Result<Vec<u64>> {
    let mut http = service.http()?;
    let mut uids = Vec::new();
    for page in 1..=count.div_ceil(PAGE) {
        let path = format!("/api/v1/mail/folders/{folder}/messages?limit={PAGE}&page={page}");
        let listing = http.json(&path)?;
        let messages = listing["messages"].as_array().context("no messages")?;
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
        if batch.len() == AT_ONCE {
            client.append(folder, &batch)?;
            batch.clear();
        }
    }
    if !batch.is_empty() {
        client.append(folder, &batch)?;
    }
    Ok(())
}

/// A pseudo-random generator with the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % end
    }
}

fn usual(number: usize, random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..=5 => {
            let length = 500 + random.below(4_500);
            let mut message = header(number, random);
            message.push_str("Content-Type: text/plain; charset=utf-8\r\n\r\n");
            message.push_str(&prose(length, random));
            message.into_bytes()
        }
        6..=8 => {
            let length = 4_000 + random.below(16_000);
            newsletter(number, length, random)
        }
        _ => with_file(number, 2_000 + random.below(20_000), random),
    }
}

/// Returns a short message that has everything a listing shows, for folders of very many messages. Messages of different folders differ.
fn short(folder: &str, number: usize, random: &mut Random) -> Vec<u8> {
    let (sender, day) = (random.below(300), 1 + random.below(28));
    format!(
        "From: \"Sender Number {sender}\" <sender{sender}@outside.test>\r\nTo: Ada Lovelace <ada@bench.test>\r\n\
         Subject: Number {number}\r\nDate: Fri, {day} Nov 2026 10:00:00 +0100\r\nMessage-ID: <{number}.{folder}@outside.test>\r\n\r\n{}\r\n",
        prose(100, random)
    )
    .into_bytes()
}

fn header(number: usize, random: &mut Random) -> String {
    let (sender, day) = (random.below(300), 1 + random.below(28));
    format!(
        "Return-Path: <sender{sender}@outside.test>\r\n\
         Received: from mail.outside.test (mail.outside.test [192.0.2.7])\r\n\tby bench.test with ESMTPS id {number:08x}\r\n\tfor <ada@bench.test>; Fri, {day} Nov 2026 09:00:00 +0000\r\n\
         DKIM-Signature: v=1; a=rsa-sha256; d=outside.test; s=one; h=from:to:subject:date;\r\n\tbh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b={}\r\n\
         From: \"Sender Number {sender}\" <sender{sender}@outside.test>\r\nTo: Ada Lovelace <ada@bench.test>, list{sender}@outside.test\r\n\
         Subject: =?utf-8?Q?Number_{number}_=E2=80=93_?= {}\r\nDate: Fri, {day} Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <{number}.{sender}@outside.test>\r\nMIME-Version: 1.0\r\n",
        "dGhpcyBpcyBub3QgYSByZWFsIHNpZ25hdHVyZSBidXQgYXMgbG9uZyBhcyBvbmU".repeat(4),
        prose(40, random).replace("\r\n", " "),
    )
}

fn newsletter(number: usize, length: usize, random: &mut Random) -> Vec<u8> {
    let plain = prose(length / 4, random);
    let mut html = String::from("<html><head><style>p { margin: 0 }</style></head><body>");
    while html.len() < length * 3 / 4 {
        html.push_str("<p style=3D\"color: #333\">");
        html.push_str(&prose(300, random));
        html.push_str("</p>\r\n");
    }
    format!(
        "{}Content-Type: multipart/alternative; boundary=\"alternative\"\r\n\r\n\
         --alternative\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{plain}\r\n\
         --alternative\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{html}</body></html>\r\n\
         --alternative--\r\n",
        header(number, random)
    )
    .into_bytes()
}

fn with_file(number: usize, length: usize, random: &mut Random) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length)
        .map(|_| random.next().to_le_bytes()[1])
        .collect();
    let mut message = format!(
        "{}Content-Type: multipart/mixed; boundary=\"mixed\"\r\n\r\n\
         --mixed\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n\
         --mixed\r\nContent-Type: application/pdf; name=\"file.pdf\"\r\nContent-Disposition: attachment; filename=\"file.pdf\"\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n",
        header(number, random),
        prose(800, random)
    )
    .into_bytes();
    for line in STANDARD.encode(bytes).as_bytes().chunks(76) {
        message.extend_from_slice(line);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"--mixed--\r\n");
    message
}

/// Returns words in lines of the usual width of mail.
pub(crate) fn prose(length: usize, random: &mut Random) -> String {
    const WORDS: [&str; 16] = [
        "the",
        "engine",
        "weaves",
        "algebraic",
        "patterns",
        "just",
        "as",
        "a",
        "loom",
        "weaves",
        "flowers",
        "and",
        "leaves",
        "of",
        "many",
        "colours",
    ];
    let (mut text, mut line) = (String::new(), 0);
    while text.len() < length {
        let word = WORDS[random.below(WORDS.len())];
        if line + word.len() > 70 {
            text.push_str("\r\n");
            line = 0;
        }
        text.push_str(word);
        text.push(' ');
        line += word.len() + 1;
    }
    text
}
