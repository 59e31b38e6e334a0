//! A generated mailbox whose content is known: each message is made of words with known search
//! keys, and then encoded as mail software does.
//!
//! The keys are written by hand, so no code of the service computes the expected results.

#![expect(
    clippy::explicit_auto_deref,
    reason = "without the dereference, the compiler infers `str` as the type of the elements"
)]

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::Encoding;
use latchmail_tests::Random;

/// Words with their search keys and several spellings.
pub(super) static WORDS: [(&str, &[&str]); 44] = [
    ("report", &["report", "Report", "REPORT"]),
    ("reports", &["reports"]),
    ("reporting", &["reporting", "Reporting"]),
    ("repeat", &["repeat"]),
    ("budget", &["budget", "Budget"]),
    ("invoice", &["invoice", "INVOICE"]),
    ("meeting", &["meeting"]),
    ("meet", &["meet"]),
    ("monday", &["Monday"]),
    ("the", &["the", "The"]),
    ("and", &["and"]),
    ("of", &["of"]),
    ("or", &["or"]),
    ("not", &["not"]),
    ("plan", &["plan", "Plan"]),
    ("plane", &["plane"]),
    ("server", &["server"]),
    ("client", &["client"]),
    ("2026", &["2026"]),
    ("42", &["42"]),
    ("x1", &["x1", "X1"]),
    ("muller", &["Müller", "MÜLLER", "muller", "Mu\u{308}ller"]),
    ("strasse", &["Straße", "STRASSE", "strasse"]),
    ("uber", &["über", "Über", "uber"]),
    ("cafe", &["Café", "CAFÉ", "cafe", "cafe\u{301}"]),
    ("garcon", &["garçon"]),
    ("smorgasbord", &["smörgåsbord"]),
    ("aero", &["Ærø", "ærø"]),
    ("lodz", &["Łódź", "ŁÓDŹ", "lodz"]),
    ("dvorak", &["Dvořák", "dvorak"]),
    ("istanbul", &["İstanbul", "ISTANBUL", "istanbul"]),
    ("diyarbakir", &["Diyarbakır"]),
    ("привет", &["Привет", "ПРИВЕТ", "привет"]),
    ("йод", &["йод", "ЙОД"]),
    ("иод", &["иод"]),
    ("слово", &["слово", "Слово"]),
    ("λογοσ", &["λόγος", "ΛΌΓΟΣ", "λογος"]),
    ("αθηνα", &["Αθήνα", "ΑΘΗΝΑ"]),
    ("office", &["office", "oﬃce"]),
    ("wide", &["wide", "ｗｉｄｅ"]),
    ("שלום", &["שלום"]),
    ("مرحبا", &["مرحبا"]),
    ("naive", &["naïve", "naive"]),
    ("resume", &["résumé", "Resume"]),
];

/// Text without spaces between words.
pub(super) static RUNS: [&str; 12] = [
    "日本語の本文",
    "東京都庁",
    "会議は金曜日",
    "これはテスト",
    "你好世界",
    "星期五会议",
    "中文信息",
    "안녕하세요",
    "회의시간",
    "ガラス",
    "カラス",
    "世界地図",
];

/// The parts of identifiers, which are joined by the last text.
pub(super) static IDENTIFIERS: [(&[&str], &str); 6] = [
    (&["INV", "2024", "00815"], "-"),
    (&["INV", "2024", "00816"], "-"),
    (&["INV", "2025", "00815"], "-"),
    (&["docs", "example", "com"], "."),
    (&["final", "report", "v2"], "_"),
    (&["10", "0", "0", "1"], "."),
];

/// The people of the mailbox: name and address.
const PEOPLE: [(&str, &str); 7] = [
    ("Grace Hopper", "grace.hopper@navy.test"),
    ("Jürgen Müller", "j.muller@example.com"),
    ("Лев Толстой", "lev@example.org"),
    ("Zoë Łukasz", "zoe@third.test"),
    ("", "robot@server.test"),
    ("Report Server", "reports@server.test"),
    ("山田太郎", "taro@example.jp"),
];

const NAME_KEYS: [&[Unit]; 7] = [
    &[Unit::Word("grace"), Unit::Word("hopper")],
    &[Unit::Word("jurgen"), Unit::Word("muller")],
    &[Unit::Word("лев"), Unit::Word("толстой")],
    &[Unit::Word("zoe"), Unit::Word("lukasz")],
    &[],
    &[Unit::Word("report"), Unit::Word("server")],
    &[Unit::Run("山田太郎")],
];

pub(super) const FOLDERS: [&str; 5] = ["INBOX", "Work", "Work/Plans", "Archive", "Junk"];
pub(super) const LABELS: [&str; 3] = ["Work", "$Forwarded", "todo"];

/// A part of a text as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A word, by its key.
    Word(&'static str),
    /// Text of which each part can be found.
    Run(&'static str),
}

/// A part of a text as it is written.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) units: Vec<Unit>,
}

/// A participant.
#[derive(Clone, Debug)]
pub(super) struct Participant {
    number: usize,
    pub(super) name: Vec<Unit>,
    pub(super) address: Vec<Unit>,
}

impl Participant {
    fn any(random: &mut Random) -> Self {
        let number = random.below(PEOPLE.len());
        let parts = PEOPLE[number].1.split(['.', '@']);
        Self {
            number,
            name: NAME_KEYS[number].to_vec(),
            address: parts.map(Unit::Word).collect(),
        }
    }

    /// Returns the name and the address as they are written.
    pub(super) fn written(&self) -> (&'static str, &'static str) {
        PEOPLE[self.number]
    }

    fn field(&self, random: &mut Random) -> String {
        let (name, address) = PEOPLE[self.number];
        match name {
            "" => address.to_owned(),
            name => format!("{} <{address}>", header_text(name, random)),
        }
    }
}

/// A message, and what a search must find in it.
#[derive(Clone, Debug)]
pub(super) struct GeneratedMessage {
    pub(super) number: usize,
    pub(super) folder: &'static str,
    /// The position in the folder, from 1. It is also the IMAP UID.
    pub(super) seq: usize,
    /// The minutes after the beginning of December 2025 at which it arrived.
    pub(super) arrival: usize,
    /// The hours after the beginning of November 2026 (UTC) in the Date field.
    pub(super) hour: usize,
    pub(super) subject: Vec<Token>,
    pub(super) from: Vec<Participant>,
    /// The participants in To and Cc.
    pub(super) to: Vec<Participant>,
    pub(super) body: Vec<Token>,
    pub(super) attachment: Option<Vec<Token>>,
    pub(super) unread: bool,
    pub(super) labels: Vec<&'static str>,
    /// Whether the message is a single plain text part in which the mail server can search.
    pub(super) is_plain: bool,
    pub(super) bytes: Vec<u8>,
}

impl GeneratedMessage {
    /// Returns a random message.
    pub(super) fn any(
        number: usize,
        seq: usize,
        folder: &'static str,
        random: &mut Random,
    ) -> Self {
        let to = (0..=random.below(3))
            .map(|_| Participant::any(random))
            .collect();
        let labels = LABELS.into_iter().filter(|_| random.one_in(4)).collect();
        let attachment = random
            .one_in(4)
            .then(|| tokens(1 + random.below(3), random));
        let length = match random.below(4) {
            0 => random.below(5),
            1 => 200,
            _ => 10 + random.below(40),
        };
        let mut message = Self {
            number,
            folder,
            seq,
            // Arrivals are not in the order of numbers, and no two are the same.
            arrival: number * 7_919 % 40_009,
            hour: random.below(24 * 28),
            subject: tokens(1 + random.below(6), random),
            from: vec![Participant::any(random)],
            to,
            body: tokens(length, random),
            attachment,
            unread: random.one_in(2),
            labels,
            is_plain: false,
            bytes: Vec::new(),
        };
        message.subject.insert(0, id(number));
        message.write(random);
        message
    }

    /// Returns the flags for the command APPEND.
    pub(super) fn flags(&self) -> String {
        let mut flags = self.labels.join(" ");
        if !self.unread {
            flags.push_str(" \\Seen");
        }
        format!("({})", flags.trim())
    }

    /// Returns the time of arrival for the command APPEND.
    pub(super) fn arrived(&self) -> String {
        let (day, minute) = (self.arrival / 1_440, self.arrival % 1_440);
        let (hour, minute) = (minute / 60, minute % 60);
        format!("\"{:02}-Dec-2025 {hour:02}:{minute:02}:00 +0000\"", day + 1)
    }

    fn write(&mut self, random: &mut Random) {
        let mut head = format!("From: {}\r\n", self.from[0].field(random));
        let fields: Vec<String> = self.to.iter().map(|to| to.field(random)).collect();
        write!(head, "To: {}\r\n", fields[0]).unwrap();
        if fields.len() > 1 {
            write!(head, "Cc: {}\r\n", fields[1..].join(",\r\n ")).unwrap();
        }
        let subject: Vec<&str> = self.subject.iter().map(|token| &*token.text).collect();
        let subject = header_words(&subject, random);
        write!(
            head,
            "Subject: {subject}\r\nDate: {}\r\n",
            self.date(random)
        )
        .unwrap();
        write!(
            head,
            "Message-ID: <{}@generated.test>\r\nMIME-Version: 1.0\r\n",
            self.number
        )
        .unwrap();
        let kind = random.below(4);
        let body = match kind {
            0 => part("text/html", &html(&self.body, random), random),
            1 => {
                let plain = part("text/plain", &plain(&self.body, random), random);
                let html = part("text/html", &html(&self.body, random), random);
                multipart("alternative", &[plain, html])
            }
            _ => part("text/plain", &plain(&self.body, random), random),
        };
        // Dovecot does not search text in UTF-16.
        let is_searched = !contains(&body, b"charset=utf-16le");
        self.is_plain = kind > 1 && self.attachment.is_none() && is_searched;
        let content = match &self.attachment {
            None => body,
            Some(name) => multipart("mixed", &[body, attachment(name, random)]),
        };
        self.bytes = [head.into_bytes(), content].concat();
    }

    /// Returns the date in a random time zone.
    fn date(&self, random: &mut Random) -> String {
        let zone = [-11, -5, 0, 1, 9][random.below(5)];
        // November 2026 begins on a Sunday. The first day of the range is moved by one, so that no
        // date is in October.
        let local = i32::try_from(self.hour).unwrap() + 24 + zone;
        let (day, hour) = (local / 24 + 1, local % 24);
        let sign = if zone < 0 { '-' } else { '+' };
        format!(
            "{day:02} Nov 2026 {hour:02}:30:00 {sign}{:02}00",
            zone.abs()
        )
    }

    /// Returns the day of November 2026 (UTC) in the Date field.
    pub(super) fn day(&self) -> usize {
        (self.hour + 24) / 24 + 1
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The word that only one message has.
fn id(number: usize) -> Token {
    let text: &'static str = Box::leak(format!("msg{number:04}").into_boxed_str());
    Token {
        text: text.to_owned(),
        units: vec![Unit::Word(text)],
    }
}

/// Returns random tokens.
fn tokens(count: usize, random: &mut Random) -> Vec<Token> {
    (0..count).map(|_| token(random)).collect()
}

fn token(random: &mut Random) -> Token {
    match random.below(12) {
        0 => {
            let run = *random.pick(&RUNS);
            Token {
                text: run.to_owned(),
                units: vec![Unit::Run(run)],
            }
        }
        1 => {
            let (parts, separator) = *random.pick(&IDENTIFIERS);
            Token {
                text: parts.join(separator),
                units: identifier_units(parts),
            }
        }
        _ => {
            // A few words are frequent.
            let number = random.below(WORDS.len());
            let number = if random.one_in(2) {
                number
            } else {
                number % 12
            };
            let (key, spellings) = WORDS[number];
            Token {
                text: (*random.pick(spellings)).to_owned(),
                units: vec![Unit::Word(key)],
            }
        }
    }
}

/// Returns the units of an identifier: its parts in lower case.
pub(super) fn identifier_units(parts: &[&'static str]) -> Vec<Unit> {
    let unit = |part: &&'static str| Unit::Word(if *part == "INV" { "inv" } else { part });
    parts.iter().map(unit).collect()
}

/// Returns plain text. Lines break between words.
fn plain(tokens: &[Token], random: &mut Random) -> String {
    let mut text = String::new();
    for token in tokens {
        text.push_str(&token.text);
        text.push_str(*random.pick(&[" ", " ", " ", ", ", ". ", " \r\n", "\r\n", "! (", " - "]));
    }
    text + "\r\n"
}

/// Returns HTML with the same words, and others that are not visible.
fn html(tokens: &[Token], random: &mut Random) -> String {
    let mut html = String::from(
        "<html><head><style>.budget { color: red }</style></head><body class=\"report\"><p>",
    );
    for token in tokens {
        let letters: Vec<char> = token.text.chars().collect();
        let is_bold = random.one_in(4);
        let middle = if is_bold {
            random.below(letters.len())
        } else {
            0
        };
        for (position, letter) in letters.into_iter().enumerate() {
            if is_bold && position == middle {
                html.push_str("<b>");
            }
            let code = u32::from(letter);
            match (random.below(3), letter) {
                (_, '<' | '>' | '&') => panic!("the vocabulary has no such characters"),
                (0, 'ü') => html.push_str("&uuml;"),
                (0, 'ß') => html.push_str("&szlig;"),
                (0, 'é') => html.push_str("&eacute;"),
                (0, letter) if !letter.is_ascii() => write!(html, "&#{code};").unwrap(),
                (1, letter) if !letter.is_ascii() => write!(html, "&#x{code:X};").unwrap(),
                _ => html.push(letter),
            }
        }
        if is_bold {
            html.push_str("</b>");
        }
        html.push_str(*random.pick(&[
            " ",
            " ",
            "\r\n",
            "&nbsp;",
            "<br>",
            "</p>\r\n<p align=\"left\">",
            " <!-- meeting --> ",
            " <span style=\"display:none\">invoice</span> ",
            " <script>var server = 1;</script> ",
        ]));
    }
    html + "</p></body></html>\r\n"
}

/// Returns a part with its fields, in a random character set and transfer encoding.
fn part(kind: &str, text: &str, random: &mut Random) -> Vec<u8> {
    let (charset, bytes) = encoded(text, random);
    let (encoding, bytes) = match random.below(3) {
        0 if charset == "utf-16le" => ("base64", base64_lines(&bytes)),
        0 => ("8bit", bytes),
        1 => ("quoted-printable", quoted_printable(&bytes)),
        _ => ("base64", base64_lines(&bytes)),
    };
    let fields = format!(
        "Content-Type: {kind}; charset={charset}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    );
    [fields.into_bytes(), bytes].concat()
}

/// Encodes a text in a random character set that has all its characters.
fn encoded(text: &str, random: &mut Random) -> (&'static str, Vec<u8>) {
    const CHARSETS: [&str; 13] = [
        "iso-8859-1",
        "windows-1252",
        "iso-8859-2",
        "iso-8859-7",
        "windows-1254",
        "koi8-r",
        "windows-1251",
        "shift_jis",
        "iso-2022-jp",
        "euc-jp",
        "gb18030",
        "euc-kr",
        "utf-16le",
    ];
    for _ in 0..10 {
        let name = *random.pick(&CHARSETS);
        if name == "utf-16le" {
            let bytes = text.encode_utf16().flat_map(u16::to_le_bytes);
            return (name, bytes.collect());
        }
        let charset = Encoding::for_label(name.as_bytes()).unwrap();
        let (bytes, _, has_unmappable) = charset.encode(text);
        // Some encodings do not return the same text for compatibility characters.
        let is_exact = !has_unmappable
            && charset
                .decode_without_bom_handling_and_without_replacement(&bytes)
                .is_some_and(|decoded| decoded == text);
        if is_exact {
            return (name, bytes.into_owned());
        }
    }
    ("utf-8", text.as_bytes().to_vec())
}

fn base64_lines(bytes: &[u8]) -> Vec<u8> {
    let encoded = STANDARD.encode(bytes);
    let lines = encoded.as_bytes().chunks(76);
    lines.flat_map(|line| [line, b"\r\n"].concat()).collect()
}

fn quoted_printable(bytes: &[u8]) -> Vec<u8> {
    let (mut encoded, mut length, mut rest) = (Vec::new(), 0, bytes);
    while let Some((byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\r\n") {
            // A space at the end of a line must be encoded.
            if encoded.last() == Some(&b' ') {
                encoded.pop();
                encoded.extend(b"=20");
            }
            encoded.extend(b"\r\n");
            (length, rest) = (0, after);
            continue;
        }
        if length > 66 {
            encoded.extend(b"=\r\n");
            length = 0;
        }
        if byte.is_ascii_alphanumeric() || *byte == b' ' {
            encoded.push(*byte);
            length += 1;
        } else {
            encoded.extend(format!("={byte:02X}").as_bytes());
            length += 3;
        }
        rest = after;
    }
    encoded
}

fn multipart(kind: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let boundary = format!("boundary-of-{kind}");
    let mut whole =
        format!("Content-Type: multipart/{kind}; boundary=\"{boundary}\"\r\n\r\n").into_bytes();
    for part in parts {
        whole.extend(format!("--{boundary}\r\n").as_bytes());
        whole.extend(part);
        whole.extend(b"\r\n");
    }
    whole.extend(format!("--{boundary}--\r\n").as_bytes());
    whole
}

/// Returns an attachment with this name. Its content is not searched.
fn attachment(name: &[Token], random: &mut Random) -> Vec<u8> {
    let words: Vec<&str> = name.iter().map(|token| &*token.text).collect();
    let name = words.join(" ");
    let parameter = if random.one_in(2) {
        format!(
            "filename*=utf-8''{}",
            latchmail_tests::percent_encoded(&name)
        )
    } else {
        format!("filename=\"=?utf-8?B?{}?=\"", STANDARD.encode(&name))
    };
    format!(
        "Content-Type: application/octet-stream\r\nContent-Disposition: attachment; {parameter}\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        STANDARD.encode("meeting budget invoice")
    )
    .into_bytes()
}

/// Encodes a text of a header field (RFC 2047) in a random way.
fn header_text(text: &str, random: &mut Random) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    header_words(&words, random)
}

/// Encodes words of a header field. Adjacent encoded words are joined without a space, so each has
/// its space.
fn header_words(words: &[&str], random: &mut Random) -> String {
    if words.iter().all(|word| word.is_ascii()) {
        return words.join(" ");
    }
    let mut field = String::new();
    for (position, word) in words.iter().enumerate() {
        let is_last = position + 1 == words.len();
        let text = format!("{word}{}", if is_last { "" } else { " " });
        let (charset, bytes) = encoded(&text, random);
        let (charset, bytes) = if charset == "utf-16le" {
            ("utf-8", text.into_bytes())
        } else {
            (charset, bytes)
        };
        if position > 0 {
            field.push_str("\r\n ");
        }
        if random.one_in(2) {
            write!(field, "=?{charset}?B?{}?=", STANDARD.encode(bytes)).unwrap();
        } else {
            let quoted = bytes.iter().fold(String::new(), |mut quoted, byte| {
                match byte {
                    b' ' => quoted.push('_'),
                    byte if byte.is_ascii_alphanumeric() => quoted.push(char::from(*byte)),
                    byte => write!(quoted, "={byte:02X}").unwrap(),
                }
                quoted
            });
            write!(field, "=?{charset}?Q?{quoted}?=").unwrap();
        }
    }
    field
}
