//! Generated queries, and a reference that decides which generated messages match. The reference
//! compares units and does not read the encoded messages.

#![expect(
    clippy::explicit_auto_deref,
    reason = "without the dereference, the compiler infers `str` as the type of the elements"
)]

use latchmail_tests::Random;

use super::generated_mail::{
    FOLDERS, GeneratedMessage, IDENTIFIERS, LABELS, RUNS, Token, Unit, WORDS, identifier_units,
};

/// A query: clauses that are joined by AND. Each has alternatives that are joined by OR.
#[derive(Clone, Debug)]
pub(super) struct GeneratedQuery {
    clauses: Vec<Vec<Term>>,
}

#[derive(Clone, Debug)]
struct Term {
    negated: bool,
    condition: Condition,
}

#[derive(Clone, Debug)]
enum Condition {
    /// A bare word, identifier or run.
    Bare(Written),
    Quoted(Written),
    From(Written),
    To(Written),
    Subject(Written),
    Attachment,
    Unread,
    Label(String),
    Before(usize),
    After(usize),
    Larger(usize),
    In(&'static str),
}

/// A text of a query: how it is written, and its units.
#[derive(Clone, Debug)]
struct Written {
    text: String,
    units: Vec<Unit>,
}

impl Written {
    fn of(tokens: &[Token]) -> Self {
        let texts: Vec<&str> = tokens.iter().map(|token| &*token.text).collect();
        Self {
            text: texts.join(" "),
            units: tokens
                .iter()
                .flat_map(|token| token.units.clone())
                .collect(),
        }
    }

    fn word(key: &'static str, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            units: vec![Unit::Word(key)],
        }
    }

    fn run(text: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            units: vec![Unit::Run(text)],
        }
    }
}

impl GeneratedQuery {
    /// Returns a random query. Most of its words occur in the messages.
    pub(super) fn any(messages: &[GeneratedMessage], random: &mut Random) -> Self {
        let count = [1, 1, 1, 2, 2, 3][random.below(6)];
        let clauses = (0..count).map(|_| {
            let alternatives = if random.one_in(5) {
                2 + random.below(2)
            } else {
                1
            };
            let terms = (0..alternatives).map(|_| Term {
                negated: random.one_in(7),
                condition: Condition::any(messages, random),
            });
            terms.collect()
        });
        Self {
            clauses: clauses.collect(),
        }
    }

    /// Returns the text of the query.
    pub(super) fn text(&self) -> String {
        let term = |term: &Term| {
            let sign = if term.negated { "-" } else { "" };
            format!("{sign}{}", term.condition.text())
        };
        let clause = |terms: &Vec<Term>| terms.iter().map(term).collect::<Vec<_>>().join(" OR ");
        let clauses: Vec<String> = self.clauses.iter().map(clause).collect();
        clauses.join(" ")
    }

    /// Returns the folders that the query names without negation.
    pub(super) fn named_folders(&self) -> Vec<&'static str> {
        let terms = self.clauses.iter().flatten().filter(|term| !term.negated);
        terms
            .filter_map(|term| match term.condition {
                Condition::In(folder) => Some(folder),
                _ => None,
            })
            .collect()
    }

    /// Returns whether the message must be found.
    pub(super) fn matches(&self, message: &GeneratedMessage) -> bool {
        let is_last_bare =
            |term: &&Term| !term.negated && matches!(term.condition, Condition::Bare(_));
        let last = self.clauses.iter().flatten().rfind(is_last_bare);
        let is_satisfied = |term: &Term| {
            let is_prefix = last.is_some_and(|last| std::ptr::eq(last, term));
            term.condition.is_satisfied(message, is_prefix) != term.negated
        };
        let mut clauses = self.clauses.iter();
        clauses.all(|terms| terms.iter().any(is_satisfied))
    }
}

impl Condition {
    fn any(messages: &[GeneratedMessage], random: &mut Random) -> Self {
        let message = random.pick(messages);
        match random.below(22) {
            0..6 => Self::Bare(bare(message, random)),
            6..9 => Self::Quoted(phrase(message, random)),
            9 | 10 => Self::From(participant(message, true, random)),
            11 | 12 => Self::To(participant(message, false, random)),
            13 | 14 => Self::Subject(Written::of(&some(&message.subject, 2, random))),
            15 => Self::Attachment,
            16 => Self::Unread,
            17 => {
                let label = *random.pick(&LABELS);
                Self::Label(if random.one_in(2) {
                    label.to_uppercase()
                } else {
                    label.to_owned()
                })
            }
            18 => Self::Before(message.day() + random.below(2)),
            19 => Self::After(message.day() + random.below(2)),
            20 => Self::Larger(message.bytes.len() - random.below(2)),
            _ => Self::In(*random.pick(&FOLDERS)),
        }
    }

    fn text(&self) -> String {
        // A value with white space needs quotes. Others can have them.
        let value = |written: &Written| {
            let text = &written.text;
            if text.contains(' ') || text.len().is_multiple_of(3) {
                format!("\"{text}\"")
            } else {
                text.clone()
            }
        };
        match self {
            Self::Bare(written) => written.text.clone(),
            Self::Quoted(written) => format!("\"{}\"", written.text),
            Self::From(written) => format!("from:{}", value(written)),
            Self::To(written) => format!("to:{}", value(written)),
            Self::Subject(written) => format!("subject:{}", value(written)),
            Self::Attachment => "has:attachment".to_owned(),
            Self::Unread => "is:unread".to_owned(),
            Self::Label(label) => format!("label:{label}"),
            Self::Before(day) => format!("before:2026-11-{day:02}"),
            Self::After(day) => format!("after:2026-11-{day:02}"),
            Self::Larger(bytes) => format!("larger:{bytes}"),
            Self::In(folder) => format!("in:{folder}"),
        }
    }

    fn is_satisfied(&self, message: &GeneratedMessage, is_prefix: bool) -> bool {
        let from = || parts_of(message.from.iter());
        let to = || parts_of(message.to.iter());
        let subject = || vec![units_of(&message.subject)];
        match self {
            Self::Bare(written) | Self::Quoted(written) => {
                let mut parts = [subject(), from(), to()].concat();
                parts.push(units_of(&message.body));
                parts.extend(message.attachment.as_deref().map(units_of));
                contains(&parts, &written.units, is_prefix)
            }
            Self::From(written) => contains(&from(), &written.units, false),
            Self::To(written) => contains(&to(), &written.units, false),
            Self::Subject(written) => contains(&subject(), &written.units, false),
            Self::Attachment => message.attachment.is_some(),
            Self::Unread => message.unread,
            Self::Label(label) => {
                let mut labels = message.labels.iter();
                labels.any(|known| known.eq_ignore_ascii_case(label))
            }
            Self::Before(day) => message.day() < *day,
            Self::After(day) => message.day() >= *day,
            Self::Larger(bytes) => message.bytes.len() > *bytes,
            Self::In(folder) => message.folder == *folder,
        }
    }
}

/// Returns a word, an identifier or a run, often one that the message has.
fn bare(message: &GeneratedMessage, random: &mut Random) -> Written {
    match random.below(8) {
        0 => {
            let (parts, separator) = *random.pick(&IDENTIFIERS);
            let from = random.below(parts.len());
            Written {
                text: parts[from..].join(separator),
                units: identifier_units(&parts[from..]),
            }
        }
        1 => {
            // A part of a run of at least two letters.
            let run = *random.pick(&RUNS);
            let letters: Vec<usize> = run.char_indices().map(|(at, _)| at).collect();
            let start = random.below(letters.len() - 1);
            let length = 2 + random.below(letters.len() - start - 1);
            let end = letters.get(start + length).copied().unwrap_or(run.len());
            Written::run(&run[letters[start]..end])
        }
        2 => {
            // The beginning of a word that all spell in the same way.
            let simple: Vec<_> = WORDS
                .iter()
                .filter(|(key, _)| key.len() > 3 && key.is_ascii())
                .collect();
            let (key, _) = random.pick(&simple);
            let beginning = &key[..2 + random.below(key.len() - 2)];
            Written::word(beginning, beginning)
        }
        3 => {
            let (key, spellings) = *random.pick(&WORDS);
            Written::word(key, *random.pick(spellings))
        }
        4 => Written::of(&message.subject[..1]),
        _ => Written::of(&some(&message.body, 1, random)),
    }
}

/// Returns a word or adjacent words of the message, without runs.
fn phrase(message: &GeneratedMessage, random: &mut Random) -> Written {
    let part = if random.one_in(3) {
        &message.subject
    } else {
        &message.body
    };
    Written::of(&some(part, 3, random))
}

/// Returns up to `count` adjacent tokens. A run is returned alone, because its parts have no
/// positions.
fn some(tokens: &[Token], count: usize, random: &mut Random) -> Vec<Token> {
    if tokens.is_empty() {
        let (key, spellings) = random.pick(&WORDS);
        return vec![Token {
            text: spellings[0].to_owned(),
            units: vec![Unit::Word(key)],
        }];
    }
    let start = random.below(tokens.len());
    let is_run = |token: &&Token| matches!(token.units[..], [Unit::Run(_)]);
    let length = 1 + random.below(count);
    let chosen = &tokens[start..(start + length).min(tokens.len())];
    let words = chosen.iter().take_while(|token| !is_run(token)).count();
    chosen[..words.max(1)].to_vec()
}

/// Returns a name, an address or a part of it, often of the message.
fn participant(message: &GeneratedMessage, is_from: bool, random: &mut Random) -> Written {
    let participants = if is_from { &message.from } else { &message.to };
    let participant = random.pick(participants);
    let (name, address) = participant.written();
    match random.below(3) {
        0 if !name.is_empty() => Written {
            text: name.to_owned(),
            units: participant.name.clone(),
        },
        1 => Written {
            text: address.split('@').next_back().unwrap().to_owned(),
            units: participant.address[participant.address.len() - 2..].to_vec(),
        },
        _ => Written {
            text: address.to_owned(),
            units: participant.address.clone(),
        },
    }
}

fn units_of(tokens: &[Token]) -> Vec<Unit> {
    tokens
        .iter()
        .flat_map(|token| token.units.clone())
        .collect()
}

/// Returns the names and addresses of participants, each as a part of its own.
fn parts_of<'a>(
    participants: impl Iterator<Item = &'a super::generated_mail::Participant>,
) -> Vec<Vec<Unit>> {
    participants
        .flat_map(|one| [one.name.clone(), one.address.clone()])
        .collect()
}

/// Returns whether one of the parts has these units, adjacent and in this order.
fn contains(parts: &[Vec<Unit>], wanted: &[Unit], is_prefix: bool) -> bool {
    let last = wanted.len() - 1;
    let equals = |position: usize, unit: &Unit| match (unit, &wanted[position]) {
        (Unit::Word(key), Unit::Word(wanted)) if is_prefix && position == last => {
            key.starts_with(wanted)
        }
        (Unit::Word(key), Unit::Word(wanted)) => key == wanted,
        (Unit::Run(run), Unit::Run(wanted)) => run.contains(wanted),
        _ => false,
    };
    parts.iter().any(|part| {
        part.windows(wanted.len())
            .any(|units| units.iter().enumerate().all(|(at, unit)| equals(at, unit)))
    })
}
