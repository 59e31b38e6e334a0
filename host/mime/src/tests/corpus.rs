//! Parses the messages of `tests/mail`, intact and corrupted. Parsing must always terminate within
//! the limits.

use std::path::Path;

use latchmail_shape::addresses::{Mailbox, Mailboxes, parse_address};

use super::*;
use crate::fuzzing;

/// How many times each message is corrupted.
const TIMES: usize = 40;

pub(super) fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mail");
    let mut corpus: Vec<_> = Path::new(folder)
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "eml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    assert!(corpus.len() > 100);
    corpus.sort();
    corpus
}

/// A deterministic random number generator (xorshift, by Marsaglia).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % limit.max(1)
    }
}

/// Returns a message with random changes, possibly with parts of another message.
fn broken(message: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let telling = b"\r\n\t \0\"\\<>()[]:;,=?*'%&-_/+@\x1b\xff\xc3\xe2\x80";
    let mut broken = message.to_vec();
    for _ in 0..=chance.below(8) {
        let at = chance.below(broken.len());
        let end = (at + chance.below(400)).min(broken.len());
        match chance.below(7) {
            0 if at < broken.len() => broken[at] ^= 1 << chance.below(8),
            1 if at < broken.len() => broken[at] = telling[chance.below(telling.len())],
            2 => broken.insert(at, telling[chance.below(telling.len())]),
            3 => drop(broken.drain(at..end)),
            4 => {
                let piece = broken[at..end].to_vec();
                let times = chance.below(20);
                broken.splice(at..at, piece.repeat(times));
            }
            5 => {
                let from = chance.below(other.len());
                broken.splice(at..end, other[from..].iter().copied());
            }
            _ => broken.truncate(at),
        }
    }
    broken
}

/// Parses a message with every function and checks the invariants.
fn read_in_every_way(name: &str, message: &[u8], complete: bool) {
    let read = std::panic::catch_unwind(|| fuzzing::message(message, complete));
    assert!(read.is_ok(), "{name}");
}

#[test]
fn every_message_is_read_within_the_bounds() {
    for (name, message) in corpus() {
        read_in_every_way(&name, &message, true);
        read_in_every_way(&name, &message, false);
        assert!(!content(&message, true).truncated, "{name}");
    }
}

#[test]
fn every_message_may_end_anywhere() {
    for (name, message) in corpus() {
        let step = (message.len() / 100).max(1);
        for end in (0..message.len()).step_by(step) {
            read_in_every_way(&name, &message[..end], true);
        }
    }
}

#[test]
fn no_accident_makes_a_message_unreadable() {
    let corpus = corpus();
    let mut chance = Chance(0x5eed_0fa1_1b1e_55ed);
    for (name, message) in &corpus {
        for time in 0..TIMES {
            let (_, other) = &corpus[chance.below(corpus.len())];
            let broken = broken(message, other, &mut chance);
            read_in_every_way(&format!("{name}, {time}"), &broken, time % 4 > 0);
        }
    }
}

/// The texts in address fields of the corpus that are not addresses.
const NOT_ADDRESSES: [&str; 2] = ["Dr. J. R. R. Tolkien", "nobody"];

#[test]
fn each_address_of_a_message_can_be_a_recipient() {
    let mut others = std::collections::BTreeSet::new();
    for (name, message) in corpus() {
        let (head, _) = split(&message);
        let header = Header::of(head, bounds::FIELD);
        let fields = [header.from, header.to, header.cc, header.reply_to];
        for shown in fields.into_iter().flatten() {
            if Mailboxes::new(&shown.address).any(|one| one.is_err()) {
                others.insert(shown.address);
                continue;
            }
            // An encoded word can contain a name and an address.
            let Some(address) = parse_address(&shown.address) else {
                continue;
            };
            // A client writes the name in quotes.
            let quoted = shown.name.replace('\\', "\\\\").replace('"', "\\\"");
            for (written, expected) in [
                (shown.address.clone(), ""),
                (format!("<{}>", shown.address), ""),
                (format!("\"{quoted}\" <{}>", shown.address), &*shown.name),
            ] {
                let read: Result<Vec<Mailbox>, _> = Mailboxes::new(&written).collect();
                let expected = Mailbox {
                    name: expected.to_owned(),
                    address: address.clone(),
                };
                assert_eq!(read, Ok(vec![expected]), "{name}: {written}");
            }
        }
    }
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    assert_eq!(others, NOT_ADDRESSES);
}
