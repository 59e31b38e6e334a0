//! The query language.
//!
//! A query consists of terms that are separated by white space. A message must satisfy all terms.
//!
//! | Term | A message satisfies it if … |
//! |---|---|
//! | `word` | the subject, a participant, the text, or the name of an attachment has the word |
//! | `"two words"` | one of these parts has the words, adjacent and in this order |
//! | `from:word`, `from:"two words"` | a name or an address in From has the words |
//! | `to:word`, `to:"two words"` | a name or an address in To or Cc has the words |
//! | `subject:word`, `subject:"two words"` | the subject has the words |
//! | `has:attachment` | it has an attachment |
//! | `is:unread` | it is unread |
//! | `label:keyword` | it has the IMAP keyword, ignoring case |
//! | `before:2024-12-31` | its date is before this day (UTC) |
//! | `after:2024-01-01` | its date is on this day or later (UTC) |
//! | `larger:5M` | it has more bytes than this number. `K` means 1,024 and `M` 1,048,576 bytes |
//! | `in:folder`, `in:"folder"` | it is in the folder with this path, ignoring case |
//! | `-term` | it does not satisfy the term |
//! | `term OR term` | it satisfies one of the two terms. `OR` binds tighter than white space |
//!
//! The names of operators ignore case. `OR` must have capital letters. No white space is allowed
//! after `:` and `-`.
//!
//! Words are compared as `folding.rs` describes, without case and diacritics. A word with
//! punctuation, such as `INV-2024-00815` or an address, stands for its parts, which must be
//! adjacent. The last bare word (not quoted, not negated, not the value of an operator) can be the
//! beginning of a longer word.
//!
//! Everything else is literal text: unknown operators (`re: x`), quotation marks without a
//! counterpart, a `-` or `OR` without a neighbour, and parentheses. A term without letters and
//! digits is ignored. If no term remains, the query finds nothing.

use chrono::NaiveDate;

use crate::words::TermWords;

/// The maximum length of a query, in code points.
pub const MAX_LENGTH: usize = 2_000;

/// The maximum number of terms of a query.
pub const MAX_TERMS: usize = 512;

/// A search query: clauses that are joined by AND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    clauses: Vec<Clause>,
}

/// Terms that are joined by OR. A clause has at least one term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clause {
    /// The terms.
    pub terms: Vec<Term>,
}

/// A condition on a message, possibly negated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// `true` if the condition must not be satisfied.
    pub negated: bool,
    /// The condition.
    pub condition: Condition,
}

/// A condition on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The words of a text, adjacent and in this order. The text has at least one word.
    Text {
        /// The part of the message that must have the words.
        scope: Scope,
        /// The text as the query contains it, without quotes.
        text: String,
        /// Whether the last word can be the beginning of a longer word.
        prefix: bool,
    },
    /// The message has an attachment.
    Attachment,
    /// The message has a code or a link for signing in. No query of a client has this condition.
    Codes,
    /// The message is unread.
    Unread,
    /// The message has the IMAP keyword, ignoring case.
    Label(String),
    /// The date is before this time, in milliseconds since 1970.
    Before(i64),
    /// The date is not before this time, in milliseconds since 1970.
    After(i64),
    /// The message has more than this many bytes.
    Larger(u64),
    /// The message is in the folder with this path, ignoring case.
    Folder(String),
}

/// The part of a message in which words are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Subject, names and addresses of participants, text, and names of attachments.
    All,
    /// Names and addresses in From.
    From,
    /// Names and addresses in To and Cc.
    To,
    /// The subject.
    Subject,
}

/// An invalid query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid search query at character {position}: {reason}")]
pub struct QueryError {
    /// The start of the faulty term, in code points.
    pub position: usize,
    /// What is wrong, as a sentence without a full stop.
    pub reason: String,
}

impl Query {
    /// Excludes messages with codes or links for signing in, if the query has conditions on texts.
    /// Otherwise the result would reveal the codes.
    pub fn exclude_codes(&mut self) {
        let mut terms = self.clauses.iter().flat_map(|clause| &clause.terms);
        if terms.any(|term| matches!(term.condition, Condition::Text { .. })) {
            let term = Term {
                negated: true,
                condition: Condition::Codes,
            };
            self.clauses.push(Clause { terms: vec![term] });
        }
    }

    /// Parses a query with operators.
    ///
    /// # Errors
    /// Returns [`QueryError`] if a known operator has an invalid value, or if the query is too
    /// long.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        check_length(text)?;
        let mut parser = Parser { text, read: 0 };
        let mut parts = Vec::new();
        while let Some(part) = parser.part()? {
            if parts.len() == MAX_TERMS {
                return Err(too_many_terms(text, part.start));
            }
            parts.push(part);
        }
        Ok(join(parts, true))
    }

    /// Returns the query for text without operators: all words, in any order. The last word can be
    /// the beginning of a longer word.
    ///
    /// # Errors
    /// Returns [`QueryError`] if the query is too long.
    pub fn plain(text: &str) -> Result<Self, QueryError> {
        check_length(text)?;
        let mut parser = Parser { text, read: 0 };
        let mut parts = Vec::new();
        while parser.skip_white_space() {
            let start = parser.read;
            if parts.len() == MAX_TERMS {
                return Err(too_many_terms(text, start));
            }
            let kind = PartKind::Bare {
                negated: false,
                text: parser.until_white_space(),
            };
            parts.push(Part { start, kind });
        }
        Ok(join(parts, false))
    }

    /// Returns the clauses, which are joined by AND. A query without clauses finds nothing.
    #[must_use]
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// Returns the values of `in:` terms that are not negated.
    pub fn named_folders(&self) -> impl Iterator<Item = &str> {
        let terms = self.clauses.iter().flat_map(|clause| &clause.terms);
        terms
            .filter(|term| !term.negated)
            .filter_map(|term| match &term.condition {
                Condition::Folder(path) => Some(path.as_str()),
                _ => None,
            })
    }
}

/// A piece of a query between white space: a term or the operator `OR`.
struct Part<'a> {
    /// The start of the piece in the query, in bytes.
    start: usize,
    kind: PartKind<'a>,
}

enum PartKind<'a> {
    /// A text without quotes and without an operator name. The last one of a query can be a prefix.
    Bare { negated: bool, text: &'a str },
    /// A quoted text or an operator.
    Term(Term),
}

impl Part<'_> {
    fn is_or(&self) -> bool {
        matches!(
            self.kind,
            PartKind::Bare {
                negated: false,
                text: "OR"
            }
        )
    }

    /// Converts the part to a term. Returns `None` if the text of the term has no words.
    fn into_term(self, prefix: bool) -> Option<Term> {
        let term = match self.kind {
            PartKind::Bare { negated, text } => Term {
                negated,
                condition: Condition::Text {
                    scope: Scope::All,
                    text: text.to_owned(),
                    prefix,
                },
            },
            PartKind::Term(term) => term,
        };
        match &term.condition {
            Condition::Text { text, .. } if !has_words(text) => None,
            _ => Some(term),
        }
    }
}

/// Joins parts to clauses. `operators` says whether `OR` can be an operator.
fn join(parts: Vec<Part<'_>>, operators: bool) -> Query {
    // An `OR` is an operator if it has a term on both sides.
    let mut joins = vec![false; parts.len()];
    let inner = if operators {
        1..parts.len().saturating_sub(1)
    } else {
        0..0
    };
    for index in inner {
        let after_term = !parts[index - 1].is_or() || !joins[index - 1];
        joins[index] = parts[index].is_or() && after_term && !parts[index + 1].is_or();
    }
    let prefix = parts
        .iter()
        .zip(&joins)
        .rposition(|(part, joins)| match part.kind {
            PartKind::Bare {
                negated: false,
                text,
            } => !joins && has_words(text),
            _ => false,
        });

    let mut clauses: Vec<Clause> = Vec::new();
    let mut join_next = false;
    for (index, part) in parts.into_iter().enumerate() {
        if joins[index] {
            join_next = true;
            continue;
        }
        if !join_next {
            clauses.push(Clause::default());
        }
        join_next = false;
        if let (Some(clause), Some(term)) =
            (clauses.last_mut(), part.into_term(prefix == Some(index)))
        {
            clause.terms.push(term);
        }
    }
    clauses.retain(|clause| !clause.terms.is_empty());
    Query { clauses }
}

fn has_words(text: &str) -> bool {
    !TermWords::new(text, false).is_empty()
}

fn check_length(text: &str) -> Result<(), QueryError> {
    if text.chars().nth(MAX_LENGTH).is_none() {
        return Ok(());
    }
    Err(QueryError {
        position: MAX_LENGTH,
        reason: format!("the query has more than {MAX_LENGTH} characters"),
    })
}

fn too_many_terms(text: &str, start: usize) -> QueryError {
    QueryError {
        position: position(text, start),
        reason: format!("the query has more than {MAX_TERMS} terms"),
    }
}

/// Converts a position in bytes to a position in code points.
fn position(text: &str, bytes: usize) -> usize {
    text[..bytes].chars().count()
}

struct Parser<'a> {
    text: &'a str,
    /// The end of the part of `text` that was read, in bytes.
    read: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.read..]
    }

    /// Skips white space. Returns whether text follows.
    fn skip_white_space(&mut self) -> bool {
        let rest = self.rest();
        self.read += rest.len() - rest.trim_start().len();
        self.read < self.text.len()
    }

    fn until_white_space(&mut self) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        self.read += word.len();
        word
    }

    /// Reads a quoted text. Returns `None` if the opening or the closing quotation mark is missing.
    fn quoted(&mut self) -> Option<&'a str> {
        let text = self.rest().strip_prefix('"')?;
        let text = &text[..text.find('"')?];
        self.read += text.len() + 2;
        Some(text)
    }

    fn part(&mut self) -> Result<Option<Part<'a>>, QueryError> {
        if !self.skip_white_space() {
            return Ok(None);
        }
        let start = self.read;
        let negated = self
            .rest()
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|next: char| !next.is_whitespace()));
        if negated {
            self.read += 1;
        }
        let kind = if let Some(text) = self.quoted() {
            let condition = Condition::Text {
                scope: Scope::All,
                text: text.to_owned(),
                prefix: false,
            };
            PartKind::Term(Term { negated, condition })
        } else if let Some((name, read)) = operator(self.rest()) {
            self.read += name.len() + 1;
            let value = self.quoted().unwrap_or_else(|| self.until_white_space());
            let condition = read(value).map_err(|reason| QueryError {
                position: position(self.text, start),
                reason: format!("{}: {reason}", name.to_ascii_lowercase()),
            })?;
            PartKind::Term(Term { negated, condition })
        } else {
            PartKind::Bare {
                negated,
                text: self.until_white_space(),
            }
        };
        Ok(Some(Part { start, kind }))
    }
}

/// Converts the value of an operator to a condition, or returns the reason why it is invalid.
type ReadValue = fn(&str) -> Result<Condition, &'static str>;

/// The operators.
const OPERATORS: [(&str, ReadValue); 10] = [
    ("from", |value| words(Scope::From, value)),
    ("to", |value| words(Scope::To, value)),
    ("subject", |value| words(Scope::Subject, value)),
    ("has", |value| match value {
        _ if value.eq_ignore_ascii_case("attachment") => Ok(Condition::Attachment),
        _ => Err("the value must be attachment"),
    }),
    ("is", |value| match value {
        _ if value.eq_ignore_ascii_case("unread") => Ok(Condition::Unread),
        _ => Err("the value must be unread"),
    }),
    ("label", |value| match value {
        _ if is_keyword(value) => Ok(Condition::Label(value.to_owned())),
        _ => Err("the value must be an IMAP keyword"),
    }),
    ("before", |value| day(value).map(Condition::Before)),
    ("after", |value| day(value).map(Condition::After)),
    ("larger", |value| {
        size(value)
            .map(Condition::Larger)
            .ok_or("the value must be a number of bytes such as 10000, 10K or 5M")
    }),
    ("in", |value| match value {
        "" => Err("the value must be the path of a folder"),
        _ => Ok(Condition::Folder(value.to_owned())),
    }),
];

/// Returns the name of the operator at the beginning of `text`, and the function that reads its
/// value.
fn operator(text: &str) -> Option<(&str, ReadValue)> {
    let (name, _) = text.split_once(':')?;
    OPERATORS
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
        .map(|&(_, read)| (name, read))
}

fn words(scope: Scope, value: &str) -> Result<Condition, &'static str> {
    if has_words(value) {
        Ok(Condition::Text {
            scope,
            text: value.to_owned(),
            prefix: false,
        })
    } else {
        Err("the value must have a letter or a digit")
    }
}

/// Returns whether a value can be an IMAP keyword: an atom (RFC 9051, section 9).
fn is_keyword(value: &str) -> bool {
    !value.is_empty()
        && value
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"(){%*\"\\]".contains(&byte))
}

/// Returns the start of a day in UTC, in milliseconds since 1970.
fn day(value: &str) -> Result<i64, &'static str> {
    let digits = |range: std::ops::Range<usize>| {
        let digits = value.get(range)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| digits.parse::<u16>().ok())
            .flatten()
    };
    let valid = value.len() == 10 && value.get(4..5) == Some("-") && value.get(7..8) == Some("-");
    let date = || {
        NaiveDate::from_ymd_opt(
            digits(0..4)?.into(),
            digits(5..7)?.into(),
            digits(8..10)?.into(),
        )
    };
    let date = if valid { date() } else { None };
    let date = date.ok_or("the value must be a date such as 2024-12-31")?;
    Ok(date
        .and_time(chrono::NaiveTime::MIN)
        .and_utc()
        .timestamp_millis())
}

/// Returns the number of bytes that a value with an optional unit stands for.
fn size(value: &str) -> Option<u64> {
    let (number, unit) = match value.as_bytes().last()? {
        b'K' | b'k' => (&value[..value.len() - 1], 1 << 10),
        b'M' | b'm' => (&value[..value.len() - 1], 1 << 20),
        _ => (value, 1),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
