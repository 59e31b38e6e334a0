//! Generates the messages of the benchmarks. They are realistic, and the same in every run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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

    /// Returns a number from 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "31 bits")]
    pub(crate) fn fraction(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 31) as f64
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % end
    }
}

/// Returns a message of a random kind: usually plain text or a newsletter, sometimes with an
/// attachment.
pub(crate) fn random_message(number: usize, random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..=5 => {
            let length = 500 + random.below(4_500);
            let mut message = header(number, random);
            message.push_str("Content-Type: text/plain; charset=utf-8\r\n\r\n");
            message.push_str(&words(length, random));
            message.into_bytes()
        }
        6..=8 => {
            let length = 4_000 + random.below(16_000);
            newsletter(number, length, random)
        }
        _ => message_with_file(number, 2_000 + random.below(20_000), random),
    }
}

/// Returns a short message with all fields that a listing shows. Messages of different folders
/// differ.
pub(crate) fn short_message(folder: &str, number: usize, random: &mut Random) -> Vec<u8> {
    let (sender, day) = (random.below(300), 1 + random.below(28));
    format!(
        "From: \"Sender Number {sender}\" <sender{sender}@outside.test>\r\nTo: Ada Lovelace <ada@bench.test>\r\n\
         Subject: Number {number}\r\nDate: Fri, {day} Nov 2026 10:00:00 +0100\r\nMessage-ID: <{number}.{folder}@outside.test>\r\n\r\n{}\r\n",
        words(100, random)
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
        words(40, random).replace("\r\n", " "),
    )
}

/// Returns a message with text and HTML of about `length` bytes.
pub(crate) fn newsletter(number: usize, length: usize, random: &mut Random) -> Vec<u8> {
    let plain = words(length / 4, random);
    let mut html = String::from("<html><head><style>p { margin: 0 }</style></head><body>");
    while html.len() < length * 3 / 4 {
        html.push_str("<p style=3D\"color: #333\">");
        html.push_str(&words(300, random));
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

/// Returns a message with an attachment of `length` bytes.
pub(crate) fn message_with_file(number: usize, length: usize, random: &mut Random) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length)
        .map(|_| random.next().to_le_bytes()[1])
        .collect();
    let mut message = format!(
        "{}Content-Type: multipart/mixed; boundary=\"mixed\"\r\n\r\n\
         --mixed\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n\
         --mixed\r\nContent-Type: application/pdf; name=\"file.pdf\"\r\nContent-Disposition: attachment; filename=\"file.pdf\"\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n",
        header(number, random),
        words(800, random)
    )
    .into_bytes();
    for line in STANDARD.encode(bytes).as_bytes().chunks(76) {
        message.extend_from_slice(line);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"--mixed--\r\n");
    message
}

/// Returns a plain text message with `recipients` recipients in `To`.
pub(crate) fn message_to_many(number: usize, recipients: usize, random: &mut Random) -> Vec<u8> {
    let to: Vec<_> = (0..recipients)
        .map(|recipient| {
            format!("\"Recipient Number {recipient}\" <recipient{recipient}@outside.test>,\r\n\t")
        })
        .collect();
    let to = to.concat();
    let mut message = header(number, random).replacen("\r\nTo: ", &format!("\r\nTo: {to}"), 1);
    message.push_str("Content-Type: text/plain; charset=utf-8\r\n\r\n");
    message.push_str(&words(2_000, random));
    message.into_bytes()
}

/// Returns a message with `parts` parts: a text, and attachments of 500 bytes.
pub(crate) fn message_with_parts(number: usize, parts: usize, random: &mut Random) -> Vec<u8> {
    let mut message = header(number, random);
    message.push_str("Content-Type: multipart/mixed; boundary=\"mixed\"\r\n\r\n--mixed\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n");
    message.push_str(&words(2_000, random));
    for part in 1..parts {
        let part = format!(
            "\r\n--mixed\r\nContent-Type: text/csv; name=\"table{part}.csv\"\r\nContent-Disposition: attachment; filename=\"table{part}.csv\"\r\n\r\n{}",
            words(500, random)
        );
        message.push_str(&part);
    }
    message.push_str("\r\n--mixed--\r\n");
    message.into_bytes()
}

/// Returns random words of at least `length` bytes, in lines of the usual width of mail.
pub(crate) fn words(length: usize, random: &mut Random) -> String {
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
