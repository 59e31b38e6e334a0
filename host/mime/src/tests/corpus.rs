//! Parses the messages of `tests/mail`, intact and corrupted. Parsing must always terminate within the limits.

use std::path::Path;

use super::*;
use crate::fuzzing;

/// How many times each message is corrupted.
const TIMES: usize = 40;

fn corpus() -> Vec<(String, Vec<u8>)> {
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
