//! Finds the documents of a segment that satisfy a query.
//!
//! Each term of a query becomes a set with one bit for each document. So the time depends little on
//! the number of matches, and a prefix can stand for any number of words. Words are evaluated
//! first, then conditions on single documents, then phrases, so that the expensive steps see few
//! documents.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use latchmail_core::message_number::MessageNumber;

use crate::docs::{BLOCK, Docs};
use crate::error::Error;
use crate::query::{Condition, Query, Scope};
use crate::schema::TextField;
use crate::segment::{Segment, Values, add_phrase};
use crate::state::{FolderSet, MailboxState};
use crate::words::TermWords;

/// Checks whether the caller has cancelled the search.
pub(crate) struct Check<'a>(pub(crate) &'a AtomicBool);

impl Check<'_> {
    /// Returns an error if the search is cancelled.
    pub(crate) fn run(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(())
    }
}

/// A query that was prepared for one state of the mailbox.
pub(crate) struct Plan {
    /// The clauses, cheap ones first.
    clauses: Vec<Clause>,
    /// The folders to search.
    folders: FolderSet,
    matches_nothing: bool,
}

struct Clause {
    cost: Cost,
    terms: Vec<Term>,
}

/// How expensive it is to evaluate a clause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    Words,
    Filter,
    Phrase,
}

struct Term {
    negated: bool,
    kind: Kind,
}

enum Kind {
    Words(WordsIn),
    Filter(Filter),
}

/// Adjacent words in some fields.
pub(crate) struct WordsIn {
    pub(crate) fields: &'static [TextField],
    pub(crate) words: TermWords,
}

/// A condition on one document.
enum Filter {
    Attachment,
    Before(i64),
    After(i64),
    Larger(u64),
    /// Whether each combination of flags satisfies the condition, indexed like
    /// `MailboxState::flag_sets`.
    Flags(Vec<bool>),
    Folders(FolderSet),
}

/// Returns the fields of a scope.
fn fields(scope: Scope) -> &'static [TextField] {
    match scope {
        Scope::All => &TextField::ALL,
        Scope::From => &[TextField::From],
        Scope::To => &[TextField::To],
        Scope::Subject => &[TextField::Subject],
    }
}

impl Plan {
    /// Prepares a query.
    pub(crate) fn new(query: &Query, folders: &FolderSet, state: &MailboxState) -> Self {
        let mut clauses: Vec<_> = query
            .clauses()
            .iter()
            .map(|clause| {
                let terms = clause.terms.iter().map(|term| Term {
                    negated: term.negated,
                    kind: kind(&term.condition, state),
                });
                let terms: Vec<_> = terms.collect();
                let cost = terms
                    .iter()
                    .map(|term| term.kind.cost())
                    .max()
                    .unwrap_or(Cost::Words);
                Clause { cost, terms }
            })
            .collect();
        clauses.sort_by_key(|clause| clause.cost);
        Self {
            matches_nothing: clauses.is_empty(),
            folders: folders.clone(),
            clauses,
        }
    }

    /// Returns the positive terms with words.
    pub(crate) fn positive_words(&self) -> impl Iterator<Item = &WordsIn> {
        let terms = self.clauses.iter().flat_map(|clause| &clause.terms);
        terms
            .filter(|term| !term.negated)
            .filter_map(|term| match &term.kind {
                Kind::Words(words) => Some(words),
                Kind::Filter(_) => None,
            })
    }

    /// Returns the documents of a segment that satisfy the query and are in one of the folders to
    /// search.
    pub(crate) fn evaluate(
        &self,
        segment: &Segment,
        state: &MailboxState,
        check: &Check<'_>,
    ) -> Result<Docs, Error> {
        let mut result = segment.alive();
        if self.matches_nothing {
            result.clear();
            return Ok(result);
        }
        let mut in_folder = false;
        let mut matches = Docs::empty(segment.reader.max_doc());
        let mut clause_matches = matches.clone();
        for clause in &self.clauses {
            if result.is_empty() {
                return Ok(result);
            }
            if clause.cost == Cost::Phrase && !in_folder {
                // Phrases are expensive. So first keep only the documents that contain all words of
                // the required phrases and are in one of the folders to search.
                for words in self.required_phrases() {
                    words.retain_candidates(
                        segment,
                        &mut result,
                        &mut matches,
                        &mut clause_matches,
                    )?;
                }
                self.retain_in_folders(segment, state, &mut result);
                in_folder = true;
            }
            if let [term] = &*clause.terms {
                check.run()?;
                matches.clear();
                term.add(segment, state, &result, &mut matches)?;
                result.intersect(&matches);
                continue;
            }
            clause_matches.clear();
            for term in &clause.terms {
                check.run()?;
                matches.clear();
                term.add(segment, state, &result, &mut matches)?;
                clause_matches.add(&matches);
            }
            result.intersect(&clause_matches);
        }
        if !in_folder {
            self.retain_in_folders(segment, state, &mut result);
        }
        Ok(result)
    }

    /// Returns the documents of a segment that are in one of the folders to search.
    pub(crate) fn searched(&self, segment: &Segment, state: &MailboxState) -> Docs {
        let mut docs = segment.alive();
        self.retain_in_folders(segment, state, &mut docs);
        docs
    }

    /// Returns the phrases that each result must contain.
    fn required_phrases(&self) -> impl Iterator<Item = &WordsIn> {
        self.clauses
            .iter()
            .filter(|clause| clause.terms.len() == 1)
            .flat_map(|clause| &clause.terms)
            .filter_map(|term| match &term.kind {
                Kind::Words(words) if !term.negated && words.is_phrase() => Some(words),
                _ => None,
            })
    }

    fn retain_in_folders(&self, segment: &Segment, state: &MailboxState, docs: &mut Docs) {
        let mut kept = Docs::empty(segment.reader.max_doc());
        select(&segment.number, docs, &mut kept, |number| {
            state
                .entry(MessageNumber(number))
                .is_some_and(|entry| self.folders.contains(entry.folder))
        });
        *docs = kept;
    }
}

/// Adds the documents of `candidates` whose value satisfies a condition to `docs`.
pub(crate) fn select<T: Copy + Default + PartialOrd + 'static>(
    values: &Values<T>,
    candidates: &Docs,
    docs: &mut Docs,
    satisfies: impl Fn(T) -> bool,
) {
    let mut block_values = [T::default(); BLOCK];
    candidates.for_each_block(|block| {
        values.get_vals(block, &mut block_values[..block.len()]);
        for (&doc, &value) in block.iter().zip(&block_values) {
            if satisfies(value) {
                docs.insert(doc);
            }
        }
    });
}

fn kind(condition: &Condition, state: &MailboxState) -> Kind {
    let flags = |matches: &dyn Fn(&crate::state::FlagSet) -> bool| {
        Filter::Flags(state.flag_sets().iter().map(matches).collect())
    };
    Kind::Filter(match condition {
        Condition::Text {
            scope,
            text,
            prefix,
        } => {
            return Kind::Words(WordsIn {
                fields: fields(*scope),
                words: TermWords::new(text, *prefix),
            });
        }
        Condition::Attachment => Filter::Attachment,
        Condition::Unread => flags(&|flags| !flags.contains("\\Seen")),
        Condition::Label(keyword) => flags(&|flags| flags.contains(keyword)),
        Condition::Before(time) => Filter::Before(*time),
        Condition::After(time) => Filter::After(*time),
        Condition::Larger(size) => Filter::Larger(*size),
        Condition::Folder(path) => Filter::Folders(state.folders_ignoring_case(path)),
    })
}

impl Kind {
    fn cost(&self) -> Cost {
        match self {
            Self::Words(words) if words.is_phrase() => Cost::Phrase,
            Self::Words(_) => Cost::Words,
            Self::Filter(_) => Cost::Filter,
        }
    }
}

impl Term {
    /// Adds all documents of `candidates` that satisfy the term to `docs`. `docs` must be empty.
    /// The caller must intersect the result with `candidates`, because other documents can be added
    /// too.
    fn add(
        &self,
        segment: &Segment,
        state: &MailboxState,
        candidates: &Docs,
        docs: &mut Docs,
    ) -> io::Result<()> {
        match &self.kind {
            Kind::Words(words) => words.add(segment, candidates, docs)?,
            Kind::Filter(filter) => filter.add(segment, state, candidates, docs),
        }
        if self.negated {
            docs.complement(candidates);
        }
        Ok(())
    }
}

impl WordsIn {
    fn is_phrase(&self) -> bool {
        self.words.words.len() > 1
    }

    /// Adds the documents that contain the words in at least one of the fields to `docs`.
    pub(crate) fn add(
        &self,
        segment: &Segment,
        candidates: &Docs,
        docs: &mut Docs,
    ) -> io::Result<()> {
        self.fields
            .iter()
            .try_for_each(|&field| self.add_field(segment, field, candidates, docs))
    }

    /// Adds the documents whose field contains the words to `docs`. If the words are a phrase, only
    /// documents of `candidates` are searched.
    pub(crate) fn add_field(
        &self,
        segment: &Segment,
        field: TextField,
        candidates: &Docs,
        docs: &mut Docs,
    ) -> io::Result<()> {
        let prefix = self.words.prefix;
        match &*self.words.words {
            [word] if prefix => segment.add_prefix(field, word, candidates, docs),
            [word] => segment.add_word(field, word, docs).map(drop),
            words => add_phrase(segment, field, words, prefix, candidates, docs),
        }
    }

    /// Keeps the documents of `candidates` in which one field contains all complete words of the
    /// phrase. `all` and `one` are buffers.
    fn retain_candidates(
        &self,
        segment: &Segment,
        candidates: &mut Docs,
        all: &mut Docs,
        one: &mut Docs,
    ) -> io::Result<()> {
        let complete = self.words.words.len() - usize::from(self.words.prefix);
        all.clear();
        for &field in self.fields {
            let mut in_field = candidates.clone();
            for word in &self.words.words[..complete] {
                one.clear();
                segment.add_word(field, word, one)?;
                in_field.intersect(one);
            }
            all.add(&in_field);
        }
        candidates.intersect(all);
        Ok(())
    }
}

impl Filter {
    /// Adds the documents of `candidates` that satisfy the condition to `docs`.
    fn add(&self, segment: &Segment, state: &MailboxState, candidates: &Docs, docs: &mut Docs) {
        match self {
            Self::Attachment => select(&segment.has_attachment, candidates, docs, |has| has),
            Self::Before(time) => select(&segment.date, candidates, docs, |date| date < *time),
            Self::After(time) => select(&segment.date, candidates, docs, |date| date >= *time),
            Self::Larger(size) => select(&segment.size, candidates, docs, |bytes| bytes > *size),
            Self::Flags(sets) => select(&segment.number, candidates, docs, |number| {
                let flags = state
                    .entry(MessageNumber(number))
                    .and_then(|entry| sets.get(entry.flags as usize));
                flags == Some(&true)
            }),
            Self::Folders(folders) => select(&segment.number, candidates, docs, |number| {
                state
                    .entry(MessageNumber(number))
                    .is_some_and(|entry| folders.contains(entry.folder))
            }),
        }
    }
}
