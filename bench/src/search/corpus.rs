//! Generates the messages for the benchmark of the search. They are the same in every run. The
//! number of messages that match a query follows from the numbers of the messages.
//!
//! The texts follow statistics of 22,288 real messages: those with at least 2,000 bytes of text
//! among 107,353 public messages (archives of the Twisted and R mailing lists, and the wanted mail
//! of the `SpamAssassin` corpus). Lengths, bytes per word, the frequencies of words, quoted lines,
//! punctuation and digits were measured. The constants for repeated words were chosen so that a
//! message has as many different words, all messages have as many different words, and the parts of
//! the index have about the same sizes. With 22,288 messages, the index has 34.5 % of the generated
//! indexed text and 34.1 % of the real one. Shorter messages have a larger index: 37 % for all
//! 107,353 messages, with 1,501 bytes of text on average.
//!
//! The texts differ from the real ones: none is longer than 50 kB (0.1 % of the real ones are),
//! none is a reply, and few lines are equal, so that the stored texts are compressed less.

use crate::messages::Random;

/// The least and the greatest length of a text in bytes.
const LEAST_TEXT: f64 = 2_200.0;
const MOST_TEXT: f64 = 50_000.0;

const WORDS_IN_LINE: usize = 6;

/// The share of lines that are quoted.
const QUOTED: f64 = 0.376;

/// The share of words outside quoted lines that are repeated.
const REPEATED: f64 = 0.7;

/// The greatest distance of a repeated word, in words.
const HISTORY: usize = 10_000;

/// The number of frequent words.
const FREQUENT: u32 = 20_000;

/// The least distance of quoted words.
const QUOTE_DISTANCE: f64 = 600.0;

/// The cumulative shares of words with a rank below 1, 10, 100, …
const SHARES: [f64; 8] = [0.0, 0.145, 0.426, 0.740, 0.920, 0.970, 0.995, 1.0];

/// The characters after a word.
const SEPARATORS: [&str; 8] = [" ", " ", " ", " ", ", ", ". ", " -- ", "/"];

const RECIPIENT: &str = "Ada Lovelace";
const RECIPIENT_ADDRESS: &str = "ada@bench.test";

/// The number of different senders.
const SENDERS: usize = 300;

/// A message.
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes of the indexed text: the body, the subject, and the names and addresses
    /// of the participants.
    pub(crate) text: usize,
}

/// A query and the messages that match.
pub(crate) struct Query {
    pub(crate) name: &'static str,
    /// The value of the parameter `q`, percent-encoded.
    pub(crate) text: &'static str,
    /// The criterion of a raw IMAP search for the same messages. It can match more messages,
    /// because IMAP matches parts of words.
    pub(crate) criterion: &'static str,
    /// Returns whether the message with this number matches.
    pub(crate) matches: fn(usize) -> bool,
}

/// The queries of the benchmark. The other words of a text contain no `e`, so these words occur
/// only where [`Generator::message`] inserts them.
pub(crate) const QUERIES: [Query; 7] = [
    Query {
        name: "rare word",
        text: "zephyr",
        criterion: r#"OR OR OR OR SUBJECT "zephyr" FROM "zephyr" TO "zephyr" CC "zephyr" BODY "zephyr""#,
        matches: is_rare,
    },
    Query {
        name: "medium word",
        text: "invoice",
        criterion: r#"OR OR OR OR SUBJECT "invoice" FROM "invoice" TO "invoice" CC "invoice" BODY "invoice""#,
        matches: is_medium,
    },
    Query {
        name: "frequent word",
        text: "meeting",
        criterion: r#"OR OR OR OR SUBJECT "meeting" FROM "meeting" TO "meeting" CC "meeting" BODY "meeting""#,
        matches: is_frequent,
    },
    Query {
        name: "phrase",
        text: "%22revised%20delivery%20schedule%22",
        criterion: r#"BODY "revised delivery schedule""#,
        matches: has_phrase,
    },
    Query {
        name: "prefix",
        text: "conferen",
        criterion: r#"BODY "conferen""#,
        matches: |number| is_singular(number) || is_plural(number),
    },
    Query {
        name: "two operators",
        text: "from:sender17%20subject:renewal",
        criterion: r#"FROM "sender17@" SUBJECT "Renewal""#,
        matches: |number| number % SENDERS == 17 && is_renewal(number),
    },
    Query {
        name: "operator and word",
        text: "is:unread%20meeting",
        criterion: r#"UNSEEN BODY "meeting""#,
        matches: is_frequent,
    },
];

fn is_rare(number: usize) -> bool {
    number % 10_000 == 7
}

fn is_medium(number: usize) -> bool {
    number % 100 == 3
}

fn is_frequent(number: usize) -> bool {
    number.is_multiple_of(3)
}

fn has_phrase(number: usize) -> bool {
    number % 200 == 11
}

/// Returns whether the message has the words of the phrase in another order.
fn has_words_of_phrase(number: usize) -> bool {
    number % 200 == 111
}

fn is_singular(number: usize) -> bool {
    number % 150 == 20
}

fn is_plural(number: usize) -> bool {
    number % 150 == 70
}

fn is_renewal(number: usize) -> bool {
    number % 7 == 4
}

/// Generates messages.
pub(crate) struct Generator {
    random: Random,
    /// The ranks of the last words of all texts.
    words: Vec<u32>,
    /// The spellings of the frequent words.
    frequent: Vec<String>,
}

impl Generator {
    pub(crate) fn new(random: Random) -> Self {
        let mut generator = Self {
            random,
            words: Vec::new(),
            frequent: (0..FREQUENT).map(spelling).collect(),
        };
        for _ in 0..HISTORY {
            let word = generator.any_word();
            generator.words.push(word);
        }
        generator
    }

    /// Returns the message with this number.
    pub(crate) fn message(&mut self, folder: &str, number: usize) -> Message {
        // The lengths of the real texts follow a Pareto distribution with this exponent.
        let length = LEAST_TEXT / (1.0 - self.random.fraction()).powf(1.0 / 2.2);
        let mut text = String::new();
        for (is_present, line) in [
            (is_rare(number), "zephyr"),
            (is_medium(number), "invoice"),
            (is_frequent(number), "meeting"),
            (has_phrase(number), "revised delivery schedule"),
            (has_words_of_phrase(number), "delivery schedule revised"),
            (is_singular(number), "conference"),
            (is_plural(number), "conferences"),
        ] {
            if is_present {
                text.push_str(line);
                text.push_str("\r\n");
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "lengths below 2^52")]
        while (text.len() as f64) < length.min(MOST_TEXT) {
            self.push_line(&mut text);
        }
        self.words.drain(..self.words.len() - HISTORY);
        let (sender, day) = (number % SENDERS, 1 + number % 28);
        let subject = if is_renewal(number) {
            "Renewal"
        } else {
            "Note"
        };
        let (subject, name) = (
            format!("{subject} {number}"),
            format!("Sender Number {sender}"),
        );
        let address = format!("sender{sender}@outside.test");
        let bytes = format!(
            "From: \"{name}\" <{address}>\r\nTo: {RECIPIENT} <{RECIPIENT_ADDRESS}>\r\n\
             Subject: {subject}\r\nDate: Fri, {day} Nov 2026 10:00:00 +0100\r\nMessage-ID: <{number}.{folder}@outside.test>\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{text}"
        );
        let participants = [&name, &address, RECIPIENT, RECIPIENT_ADDRESS];
        Message {
            bytes: bytes.into_bytes(),
            text: text.len() + subject.len() + participants.map(str::len).iter().sum::<usize>(),
        }
    }

    /// Adds a line. A quoted line repeats successive words of an earlier line. In other lines, many
    /// words are repeated, one at a time.
    fn push_line(&mut self, text: &mut String) {
        let quoted = (self.random.fraction() < QUOTED).then(|| self.distance(QUOTE_DISTANCE));
        if quoted.is_some() {
            text.push_str("> ");
        }
        for _ in 0..WORDS_IN_LINE {
            let distance = quoted.or_else(|| {
                let is_repeated = self.random.fraction() < REPEATED;
                is_repeated.then(|| self.distance(1.0))
            });
            let word = match distance {
                Some(distance) => self.words[self.words.len() - distance],
                None => self.any_word(),
            };
            self.words.push(word);
            match self.frequent.get(word as usize) {
                Some(spelling) => text.push_str(spelling),
                None => text.push_str(&spelling(word)),
            }
            text.push_str(SEPARATORS[self.random.below(SEPARATORS.len())]);
        }
        text.push_str("\r\n");
    }

    /// Returns a distance to an earlier word. Short distances are more frequent.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a positive number that is at most HISTORY"
    )]
    fn distance(&mut self, least: f64) -> usize {
        (least * (HISTORY as f64 / least).powf(self.random.fraction())) as usize
    }

    /// Returns the rank of a word that does not depend on earlier words.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank from 1 to below 10^7"
    )]
    fn any_word(&mut self) -> u32 {
        let share = self.random.fraction();
        let decade = SHARES.partition_point(|start| *start <= share) - 1;
        let (start, end) = (SHARES[decade], SHARES[decade + 1]);
        10_f64.powf(decade as f64 + (share - start) / (end - start)) as u32
    }
}

/// Returns the word with a rank: a number, or syllables and an ending. Rare words are longer.
fn spelling(rank: u32) -> String {
    const CONSONANTS: &[u8] = b"bdfgklmnprstv";
    const VOWELS: &[u8] = b"aiou";
    const ENDINGS: [&str; 8] = ["", "n", "t", "s", "nd", "st", "ck", "lls"];
    if rank % 16 == 15 {
        return rank.to_string();
    }
    let mut rest = if rank < FREQUENT {
        rank as usize
    } else {
        rank.wrapping_mul(0x9E37_79B1) as usize
    };
    let mut word = String::new();
    let ending = ENDINGS[rest % ENDINGS.len()];
    rest /= ENDINGS.len();
    loop {
        for letters in [CONSONANTS, VOWELS] {
            word.push(char::from(letters[rest % letters.len()]));
            rest /= letters.len();
        }
        if rest == 0 {
            return word + ending;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_contain_the_words_of_the_queries_and_no_others() {
        let mut generator = Generator::new(Random(1));
        for number in 1..2_000 {
            let message = generator.message("INBOX", number);
            let text = String::from_utf8(message.bytes).unwrap();
            let text = text.split_once("\r\n\r\n").unwrap().1;
            for (query, word) in QUERIES.iter().zip([
                "zephyr",
                "invoice",
                "meeting",
                "revised delivery schedule",
                "conferen",
            ]) {
                assert_eq!(text.contains(word), (query.matches)(number), "{number}");
            }
        }
    }
}
