//! Generates the messages for the benchmark of the search. They are the same in every run. The number of messages that match a query follows from the numbers
//! of the messages.

use std::fmt::Write as _;

use crate::messages::Random;

/// The length of a text in bytes.
const LENGTH: usize = 4_000;

/// The number of different words. Mailboxes of this size have a similar number of words that occur more than once.
const VOCABULARY: f64 = 50_000.0;

/// The number of different senders.
const SENDERS: usize = 300;

/// A message, and the size of its text.
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: usize,
}

/// A query and the messages that match.
pub(crate) struct Query {
    pub(crate) name: &'static str,
    /// The value of the parameter `q`, percent-encoded.
    pub(crate) text: &'static str,
    /// The criterion of a raw IMAP search for the same messages. It can match more messages, because IMAP matches parts of words.
    pub(crate) criterion: &'static str,
    /// Returns whether the message with this number matches.
    pub(crate) matches: fn(usize) -> bool,
}

/// The queries of the benchmark. The words of a message contain no `e`, so these words occur only where [`message`] inserts them.
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

/// Returns the message with this number.
pub(crate) fn message(folder: &str, number: usize, random: &mut Random) -> Message {
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
    let mut line = 0;
    while text.len() < LENGTH {
        let start = text.len();
        push_word(&mut text, random);
        line += text.len() - start + 1;
        if line > 70 {
            text.push_str("\r\n");
            line = 0;
        } else {
            text.push(' ');
        }
    }
    let (sender, day) = (number % SENDERS, 1 + number % 28);
    let subject = if is_renewal(number) {
        "Renewal"
    } else {
        "Note"
    };
    let mut message = String::new();
    let _ = write!(
        message,
        "From: \"Sender Number {sender}\" <sender{sender}@outside.test>\r\nTo: Ada Lovelace <ada@bench.test>\r\n\
         Subject: {subject} {number}\r\nDate: Fri, {day} Nov 2026 10:00:00 +0100\r\nMessage-ID: <{number}.{folder}@outside.test>\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n"
    );
    Message {
        bytes: message.into_bytes(),
        text: text.len(),
    }
}

/// Adds a word. The frequencies of words follow Zipf's law: the frequency of a word is the inverse of its rank.
fn push_word(text: &mut String, random: &mut Random) {
    const CONSONANTS: &[u8] = b"bdfgklmnprstv";
    const VOWELS: &[u8] = b"aiou";
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive rank below the size of the vocabulary"
    )]
    let mut rank = (random.fraction() * VOCABULARY.ln()).exp() as usize;
    loop {
        for letters in [CONSONANTS, VOWELS] {
            text.push(char::from(letters[rank % letters.len()]));
            rank /= letters.len();
        }
        if rank == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_contain_the_words_of_the_queries_and_no_others() {
        let mut random = Random(1);
        for number in 1..2_000 {
            let message = message("INBOX", number, &mut random);
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
            assert!((LENGTH..LENGTH + 20).contains(&message.text));
        }
    }
}
