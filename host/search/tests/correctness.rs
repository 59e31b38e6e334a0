//! Compares searches with a reference that scans the messages with code of its own.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_search::{
    Document, FolderSet, Index, MailboxState, Order, Participant, Query, Search, Sort, ThreadKeys,
};

/// Words with different spellings, and their common form. The reference knows only this table.
const WORDS: [(&str, &[&str]); 30] = [
    (
        "muller",
        &["Müller", "MÜLLER", "muller", "Mu\u{308}ller", "Ｍüller"],
    ),
    ("mull", &["mull", "Müll"]),
    ("strasse", &["Straße", "STRASSE", "strasse"]),
    ("berlin", &["Berlin", "BERLIN", "Ber\u{AD}lin"]),
    ("ber", &["ber", "Ber"]),
    ("lodz", &["Łódź", "lodz"]),
    ("aero", &["Ærø", "aero"]),
    ("istanbul", &["İstanbul", "ıstanbul", "ISTANBUL"]),
    ("москва", &["Москва", "МОСКВА"]),
    ("йод", &["Йод", "И\u{306}од"]),
    ("иод", &["иод"]),
    ("αθηνα", &["Αθήνα", "ΑΘΗΝΑ"]),
    ("οδοσ", &["ΟΔΟΣ", "οδός"]),
    ("שלום", &["שלום"]),
    ("مرحبا", &["مرحبا"]),
    ("हिन्दी", &["हिन्दी"]),
    ("office", &["oﬃce", "Office"]),
    ("inv", &["INV", "inv"]),
    ("invoice", &["Invoice", "ＩＮＶＯＩＣＥ"]),
    ("2024", &["2024", "２０２４"]),
    ("00815", &["00815"]),
    ("008", &["008"]),
    ("example", &["example", "Example"]),
    ("com", &["com"]),
    ("the", &["the", "The", "THE"]),
    ("a", &["a", "A", "å", "ä"]),
    ("of", &["of"]),
    ("or", &["or", "Or"]),
    ("m2", &["m²", "M2"]),
    ("thor", &["Þor", "thor"]),
];

/// Letters of runs without spaces, with different spellings, and their common form.
const LETTERS: [(char, &[&str]); 8] = [
    ('東', &["東"]),
    ('京', &["京"]),
    ('都', &["都"]),
    ('ガ', &["ガ", "カ\u{3099}", "ｶﾞ"]),
    ('カ', &["カ", "ｶ"]),
    ('ー', &["ー"]),
    ('한', &["한", "\u{1112}\u{1161}\u{11AB}"]),
    ('ก', &["ก"]),
];

const SEPARATORS: [&str; 8] = [" ", " ", " ", "-", ", ", ".\r\n", "@", "…"];

/// A word, or a run of letters without spaces.
#[derive(Clone, Debug, PartialEq)]
enum Unit {
    Word(&'static str),
    Run(Vec<char>),
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Returns a unit and one of its spellings. Words at the beginning of the table are frequent.
    fn unit(&mut self) -> (Unit, String) {
        if self.one_in(5) {
            let letters: Vec<_> = (0..=self.below(4)).map(|_| self.pick(&LETTERS)).collect();
            let text = letters
                .iter()
                .map(|(_, spellings)| self.pick(spellings))
                .collect();
            return (
                Unit::Run(letters.iter().map(|&(letter, _)| letter).collect()),
                text,
            );
        }
        let limit = self.below(WORDS.len()) + 1;
        let (word, spellings) = WORDS[self.below(limit)];
        (Unit::Word(word), self.pick(spellings).to_owned())
    }

    /// Returns units and their text.
    fn text(&mut self, length: usize, separators: &[&str]) -> (Vec<Unit>, String) {
        let mut units: Vec<Unit> = Vec::new();
        let mut all = String::new();
        for _ in 0..length {
            let (unit, text) = self.unit();
            // A word and a run need no separator.
            let different = units.last().is_some_and(|last| {
                matches!(
                    (last, &unit),
                    (Unit::Word(_), Unit::Run(_)) | (Unit::Run(_), Unit::Word(_))
                )
            });
            let joined = different && self.one_in(2);
            if !units.is_empty() && !joined {
                all.push_str(self.pick(separators));
            }
            all.push_str(&text);
            units.push(unit);
        }
        (units, all)
    }
}

struct Message {
    uid: u64,
    folder: u16,
    imap_uid: u32,
    flags: String,
    arrival: i64,
    date: i64,
    size: u64,
    has_attachment: bool,
    /// The parts of the message by field.
    subject: Vec<Vec<Unit>>,
    from: Vec<Vec<Unit>>,
    to: Vec<Vec<Unit>>,
    body: Vec<Vec<Unit>>,
}

/// Returns whether the units of a term are adjacent in a part.
fn part_has(part: &[Unit], term: &[Unit], prefix: bool) -> bool {
    part.windows(term.len()).any(|window| {
        window
            .iter()
            .zip(term)
            .enumerate()
            .all(|(index, (unit, wanted))| {
                let (first, last) = (index == 0, index == term.len() - 1);
                match (unit, wanted) {
                    (Unit::Word(word), Unit::Word(wanted)) if last && prefix => {
                        word.starts_with(wanted)
                    }
                    (Unit::Word(word), Unit::Word(wanted)) => word == wanted,
                    (Unit::Run(run), Unit::Run(wanted)) => match (first, last) {
                        (true, true) => run.windows(wanted.len()).any(|letters| letters == wanted),
                        (true, false) => run.ends_with(wanted),
                        (false, true) => run.starts_with(wanted),
                        (false, false) => run == wanted,
                    },
                    _ => false,
                }
            })
    })
}

const DAY: i64 = 86_400_000;

type Predicate = Box<dyn Fn(&Message) -> bool>;

const FOLDERS: [&str; 4] = ["INBOX", "Old Mail", "Junk", "Archive/Übersicht"];

/// Returns a term, its text, and whether it is a bare word. `prefix` says whether a bare word is a
/// prefix.
fn term(random: &mut Random, prefix: bool) -> (Predicate, String, bool) {
    let scoped = |units: Vec<Unit>, scope: usize, prefix: bool| -> Predicate {
        Box::new(move |message: &Message| {
            let fields: &[&Vec<Vec<Unit>>] = match scope {
                0 => &[&message.subject, &message.from, &message.to, &message.body],
                1 => &[&message.from],
                2 => &[&message.to],
                _ => &[&message.subject],
            };
            fields
                .iter()
                .any(|parts| parts.iter().any(|part| part_has(part, &units, prefix)))
        })
    };
    match random.below(16) {
        0 => {
            let length = random.below(4) + 1;
            let (units, text) = random.text(length, &[" ", "  ", "-"]);
            (scoped(units, 0, false), format!("\"{text}\""), false)
        }
        1..=3 => {
            let (scope, name) = random.pick(&[(1, "from"), (2, "to"), (3, "Subject")]);
            let length = random.below(3) + 1;
            let (units, text) = random.text(length, &["-", "@"]);
            (scoped(units, scope, false), format!("{name}:{text}"), false)
        }
        4 => (
            Box::new(|message| message.has_attachment),
            "has:attachment".into(),
            false,
        ),
        5 => (
            Box::new(|message| !message.flags.contains("\\Seen")),
            "is:unread".into(),
            false,
        ),
        6 => (
            Box::new(|message| message.flags.contains("work")),
            "label:Work".into(),
            false,
        ),
        7 => {
            let day = i64::try_from(random.below(28)).unwrap();
            (
                Box::new(move |message| message.date < day * DAY),
                format!("before:1970-01-{:02}", day + 1),
                false,
            )
        }
        8 => {
            let day = i64::try_from(random.below(28)).unwrap();
            (
                Box::new(move |message| message.date >= day * DAY),
                format!("after:1970-01-{:02}", day + 1),
                false,
            )
        }
        9 => {
            let size = random.below(10) as u64;
            (
                Box::new(move |message| message.size > size * 1024),
                format!("larger:{size}K"),
                false,
            )
        }
        10 => {
            let folder = random.below(FOLDERS.len());
            let name = FOLDERS[folder].to_uppercase();
            (
                Box::new(move |message| usize::from(message.folder) == folder),
                format!("in:\"{name}\""),
                false,
            )
        }
        _ => {
            let length = if random.one_in(3) {
                random.below(3) + 1
            } else {
                1
            };
            let (mut units, mut text) = random.text(length, &["-", "@", ":"]);
            if prefix
                && random.one_in(2)
                && let Some(Unit::Word(word)) = units.last_mut()
            {
                // The text ends with the first letters of a word.
                let letters = word.chars().count();
                let length: usize = word
                    .chars()
                    .take(random.below(letters) + 1)
                    .map(char::len_utf8)
                    .sum();
                let full = *word;
                *word = &word[..length];
                let spelling_length = text.len();
                let (_, spellings) = WORDS.iter().find(|(known, _)| *known == full).unwrap();
                let spelling = spellings
                    .iter()
                    .find(|spelling| text.ends_with(*spelling))
                    .unwrap();
                text.truncate(spelling_length - spelling.len());
                text.push_str(word);
            }
            (scoped(units, 0, prefix), text, true)
        }
    }
}

/// Returns a query and a predicate for it.
fn query(random: &mut Random) -> (String, Predicate) {
    let count = random.below(4) + 1;
    // The kinds of terms are chosen first, because only the last bare word is a prefix.
    let mut clauses: Vec<Vec<(Predicate, String, bool)>> = Vec::new();
    let start = random.0;
    let mut last_bare = None;
    for pass in 0..2 {
        random.0 = start;
        clauses.clear();
        for index in 0..count {
            // The generator is in the same state in both passes, whatever the first one has drawn.
            random.0 = start.wrapping_add(index as u64 * 7919);
            let join = index > 0 && random.one_in(4);
            let negated = random.one_in(5);
            let (predicate, text, bare) = term(random, pass == 1 && last_bare == Some(index));
            // `or` is a word, and a capital `OR` without quotes could be an operator.
            if bare && !negated {
                last_bare = if pass == 0 { Some(index) } else { last_bare };
            }
            let entry: (Predicate, String, bool) = if negated {
                (
                    Box::new(move |message| !predicate(message)),
                    format!("-{text}"),
                    bare,
                )
            } else {
                (predicate, text, bare)
            };
            if join {
                clauses.last_mut().unwrap().push(entry);
            } else {
                clauses.push(vec![entry]);
            }
        }
    }
    let text: Vec<String> = clauses
        .iter()
        .map(|terms| {
            terms
                .iter()
                .map(|(_, text, _)| text.as_str())
                .collect::<Vec<_>>()
                .join(" OR ")
        })
        .collect();
    let predicate = move |message: &Message| {
        clauses
            .iter()
            .all(|terms| terms.iter().any(|(predicate, _, _)| predicate(message)))
    };
    (text.join(" "), Box::new(predicate))
}

/// Adds messages to an index in several commits, and deletes and moves some of them.
fn build(folder: &Path, random: &mut Random) -> (Index, MailboxState, Vec<Message>) {
    let index = Index::open(folder).unwrap();
    let mut state = MailboxState::new();
    for (number, path) in (0..).zip(FOLDERS) {
        state.set_folder(number, path);
    }
    let mut messages = BTreeMap::new();
    let mut writer = index.writer(15_000_000).unwrap();
    for uid in 1..=400_u64 {
        let mut parts = |count: usize, limit: usize| -> (Vec<Vec<Unit>>, Vec<String>) {
            (0..count)
                .map(|_| {
                    let length = random.below(limit) + 1;
                    random.text(length, &SEPARATORS)
                })
                .unzip()
        };
        let (subject, subject_text) = parts(1, 5);
        let (from, from_text) = parts(2, 2);
        let (to, to_text) = parts(4, 2);
        let (body, body_text) = parts(3, 40);
        let message = Message {
            uid,
            folder: u16::try_from(random.below(FOLDERS.len())).unwrap(),
            imap_uid: u32::try_from(uid * 7 % 1009).unwrap(),
            flags: random
                .pick(&["", "\\Seen", "\\Seen work", "work", "workshop"])
                .replace("workshop", "\\Flagged"),
            arrival: i64::try_from(random.below(50)).unwrap(),
            date: i64::try_from(random.below(28)).unwrap() * DAY
                + i64::try_from(random.below(2)).unwrap(),
            size: random.below(10) as u64 * 1024 + random.below(2) as u64,
            has_attachment: random.one_in(4),
            subject,
            from,
            to,
            body,
        };
        state.set(
            MessageNumber(uid),
            message.folder,
            Uid(message.imap_uid),
            &message.flags,
        );
        let document = Document {
            number: MessageNumber(uid),
            arrival: message.arrival,
            date: message.date,
            size: message.size,
            subject: &subject_text[0],
            from: &[Participant {
                name: &from_text[0],
                address: &from_text[1],
            }],
            to: &[Participant {
                name: &to_text[0],
                address: &to_text[1],
            }],
            cc: &[Participant {
                name: &to_text[2],
                address: &to_text[3],
            }],
            has_attachment: message.has_attachment,
            has_codes: false,
            attachments: &[&body_text[0], &body_text[1]],
            text: &body_text[2],
            other_text: "",
            thread: ThreadKeys::default(),
            summary: &uid.to_be_bytes(),
        };
        writer.add(&document).unwrap();
        messages.insert(uid, message);
        if random.one_in(15) {
            writer.commit().unwrap();
        }
        if random.one_in(10) {
            let removed = random.below(usize::try_from(uid).unwrap()) as u64;
            writer.remove(MessageNumber(removed)).unwrap();
            state.remove(MessageNumber(removed));
            messages.remove(&removed);
        }
    }
    writer.commit().unwrap();
    for message in messages.values_mut() {
        if random.one_in(4) {
            message.folder = 0;
            message.imap_uid += 2000;
            state.set(
                MessageNumber(message.uid),
                0,
                Uid(message.imap_uid),
                &message.flags,
            );
        }
    }
    (index, state, messages.into_values().collect())
}

#[test]
fn a_thousand_queries_equal_a_scan_of_the_messages() {
    let mut random = Random(35);
    let folder = tempfile::tempdir().unwrap();
    let (index, state, messages) = build(folder.path(), &mut random);
    let mut found_messages = 0;
    for number in 0..1000 {
        random.0 = u64::wrapping_mul(number, 0x9E37_79B9_7F4A_7C15);
        let (text, predicate) = query(&mut random);
        let parsed = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let one_folder = random.one_in(2);
        let folders: FolderSet = if one_folder {
            [0].into_iter().collect()
        } else {
            [0, 1, 3].into_iter().collect()
        };
        let mut expected: Vec<_> = messages
            .iter()
            .filter(|message| folders.contains(message.folder) && predicate(message))
            .collect();
        expected.sort_by_key(|message| {
            if one_folder {
                (i64::from(message.imap_uid), 0)
            } else {
                (message.arrival, message.uid)
            }
        });
        expected.reverse();
        found_messages += expected.len();
        let expected: Vec<_> = expected.into_iter().map(|message| message.uid).collect();

        let mut search = Search {
            query: &parsed,
            folders: &folders,
            sort: Sort::Newest,
            order: if one_folder {
                Order::Folder
            } else {
                Order::Arrival
            },
            offset: random.below(20),
            limit: random.below(30),
            cancelled: &AtomicBool::new(false),
        };
        let found = index.search(&state, &search).unwrap();
        assert_eq!(found.total as usize, expected.len(), "{text}");
        let uids: Vec<_> = found.hits.iter().map(|hit| hit.number.0).collect();
        let page: Vec<_> = expected
            .iter()
            .copied()
            .skip(search.offset)
            .take(search.limit)
            .collect();
        assert_eq!(uids, page, "{text}");

        if number % 8 != 0 {
            continue;
        }
        (search.sort, search.offset, search.limit) = (Sort::Relevance, 0, 1000);
        let found = index.search(&state, &search).unwrap();
        let mut uids: Vec<_> = found.hits.iter().map(|hit| hit.number.0).collect();
        let mut expected = expected;
        uids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(uids, expected, "{text}");
    }
    assert!(
        (20_000..200_000).contains(&found_messages),
        "{found_messages}"
    );
}
