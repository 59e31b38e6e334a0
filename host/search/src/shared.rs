//! The state that an index and its writer share.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use latchmail_core::message_number::MessageNumber;
use tantivy::index::SegmentComponent;
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{IndexReader, ReloadPolicy, SegmentMeta, TantivyError};

use crate::error::{Error, guard};
use crate::files::Files;
use crate::schema::{FIELDS, TOKENIZER, settings};
use crate::segment::Segment;
use crate::words::WordTokenizer;

/// The state that an index and its writer share.
pub(crate) struct Shared {
    pub(crate) index: tantivy::Index,
    pub(crate) files: Files,
    reader: IndexReader,
    segments: RwLock<Arc<Vec<Segment>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let files = Files::open(folder)?;
        let index = if tantivy::Index::exists(&files).map_err(TantivyError::from)? {
            tantivy::Index::open(files.clone())?
        } else {
            // A crash before the first commit can leave files, which would prevent the creation of
            // an index.
            files.clear()?;
            tantivy::Index::create(files.clone(), FIELDS.schema.clone(), settings())?
        };
        if index.schema() != FIELDS.schema {
            return Err(Error::Damaged("the index has another format".into()));
        }
        index
            .tokenizers()
            .register(TOKENIZER, TextAnalyzer::from(WordTokenizer::default()));
        verify(&index)?;
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()?;
        let shared = Self {
            index,
            files,
            reader,
            segments: RwLock::default(),
        };
        shared.load()?;
        Ok(shared)
    }

    /// Opens the segments of the last commit that the reader knows.
    fn load(&self) -> Result<(), Error> {
        let searcher = self.reader.searcher();
        let segments = searcher
            .segment_readers()
            .iter()
            .map(Segment::open)
            .collect::<Result<Vec<_>, _>>()?;
        *self
            .segments
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(segments);
        Ok(())
    }

    /// Opens the segments of the last commit.
    pub(crate) fn reload(&self) -> Result<(), Error> {
        self.run(|| {
            self.reader.reload()?;
            self.load()
        })
    }

    pub(crate) fn segments(&self) -> Arc<Vec<Segment>> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a function that calls tantivy. If a thread of tantivy failed to write a file, the error
    /// contains the reason.
    pub(crate) fn run<T>(&self, function: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        guard(function).map_err(|error| match self.files.take_failure() {
            Some(failure) => Error::Io(failure),
            None => error,
        })
    }

    pub(crate) fn numbers(&self) -> Result<Vec<MessageNumber>, Error> {
        self.run(|| {
            let mut numbers = Vec::new();
            for segment in &*self.segments() {
                segment
                    .alive()
                    .for_each(|doc| numbers.push(MessageNumber(segment.number.get_val(doc))));
            }
            Ok(numbers)
        })
    }
}

/// Verifies the checksums of all files of the last commit.
pub(crate) fn verify(index: &tantivy::Index) -> Result<(), Error> {
    let mut segments = index.load_metas()?.segments;
    loop {
        let result = verify_segments(index, &segments);
        // A concurrent writer can delete the files of merged segments during the verification. If
        // the segments have changed, verify the new segments.
        let now = index.load_metas()?.segments;
        let ids = |segments: &[SegmentMeta]| {
            segments
                .iter()
                .map(|segment| (segment.id(), segment.delete_opstamp()))
                .collect::<HashSet<_>>()
        };
        if result.is_ok() || ids(&now) == ids(&segments) {
            return result;
        }
        segments = now;
    }
}

fn verify_segments(index: &tantivy::Index, segments: &[SegmentMeta]) -> Result<(), Error> {
    use SegmentComponent::{Delete, FastFields, FieldNorms, Positions, Postings, Store, Terms};
    for segment in segments {
        let deleted = segment.has_deletes().then_some(Delete);
        let components = [Postings, Positions, FastFields, FieldNorms, Terms, Store];
        for component in components.into_iter().chain(deleted) {
            let file = segment.relative_path(component);
            if !index
                .directory()
                .validate_checksum(&file)
                .map_err(TantivyError::from)?
            {
                return Err(Error::Damaged(format!(
                    "the checksum of {} is wrong",
                    file.display()
                )));
            }
        }
    }
    Ok(())
}
