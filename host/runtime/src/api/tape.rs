//! The tape of a call: the results of its host functions, in their order. A tape is recorded in a
//! request of a client, and replayed into a sandbox of another version of the module. A replayed
//! call never reaches the services of the host, so it has no effect.
//!
//! [`super::taped`] calls the functions of this file for each host function. A preview is something
//! else ([`super::recorder`]): there, the functions that read are called, and changes are written
//! down for a person.

mod blobs;
mod charge;
mod recordable;

use std::any::Any;
use std::collections::hash_map::DefaultHasher;
use std::fmt::{self, Debug, Write as _};
use std::hash::Hasher as _;
use std::sync::Arc;

use wasmtime::component::ResourceTable;

pub(crate) use self::charge::{Charge, Pool};
pub(super) use self::recordable::{Plain, Recordable, WithHandles};
use super::ambient::Ambient;
use blobs::BlobTape;

/// The maximum number of host calls in a recording.
const MAX_CALLS: usize = 1000;

/// The memory of a recorded call without its result, in bytes. An estimate.
const CALL_SIZE: usize = 128;

/// The tape of a call.
#[derive(Debug, Default)]
pub(crate) enum Tape {
    /// The call is an ordinary one.
    #[default]
    Off,
    /// The results of host functions are recorded.
    Recording(Recording),
    /// The results of host functions come from a recording.
    Replay(Replay),
}

impl Tape {
    /// Returns whether results are recorded or replayed.
    pub(super) fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Returns whether results are replayed.
    pub(super) fn is_replay(&self) -> bool {
        matches!(self, Self::Replay(_))
    }

    /// Returns the time and the randomness of the sandbox, or `None` for the real ones.
    pub(crate) fn ambient(&self) -> Option<&Ambient> {
        match self {
            Self::Off => None,
            Self::Recording(recording) => Some(&recording.ambient),
            Self::Replay(replay) => Some(&replay.ambient),
        }
    }
}

/// The identity of a host call: the function and a hash of the arguments. The hash is that of the
/// form `Debug` of the arguments, so no argument is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    function: &'static str,
    arguments: u64,
}

impl Key {
    /// `function` has the form `interface.function_name`.
    pub(super) fn new(function: &'static str, arguments: &dyn Debug) -> Self {
        let mut hasher = TextHasher(DefaultHasher::new());
        // The hasher accepts all text.
        let _ = write!(hasher, "{arguments:?}");
        Self {
            function,
            arguments: hasher.0.finish(),
        }
    }
}

struct TextHasher(DefaultHasher);

impl fmt::Write for TextHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// A host call with a copy of its result.
struct RecordedCall {
    key: Key,
    result: Box<dyn Any + Send + Sync>,
}

impl Debug for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedCall")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Recording {
    ambient: Ambient,
    calls: Vec<RecordedCall>,
    blobs: Vec<Arc<BlobTape>>,
    charge: Arc<Charge>,
    /// Whether a host function ended the call, which cannot be repeated.
    is_broken: bool,
}

impl Recording {
    /// Starts a recording, whose memory is counted in `charge`.
    pub(crate) fn new(ambient: Ambient, charge: Charge) -> Self {
        Self {
            ambient,
            calls: Vec::new(),
            blobs: Vec::new(),
            charge: Arc::new(charge),
            is_broken: false,
        }
    }

    /// Ends the recording, also of blobs. Returns `None` if it is too large or not complete.
    pub(crate) fn finish(self) -> Option<RecordedCalls> {
        for blob in &self.blobs {
            blob.finish();
        }
        let is_complete = !self.is_broken && !self.charge.is_exceeded();
        is_complete.then_some(RecordedCalls {
            ambient: self.ambient,
            calls: self.calls,
            _charge: self.charge,
        })
    }

    /// Records a result.
    pub(super) fn record<M, R: Recordable<M>>(
        &mut self,
        key: Key,
        result: &R,
        table: &mut ResourceTable,
    ) {
        if self.calls.len() == MAX_CALLS || !self.charge.take(CALL_SIZE) {
            self.is_broken = true;
        }
        if self.is_broken {
            self.calls.clear();
            return;
        }
        match result.to_stored(self, table) {
            Some(result) => self.calls.push(RecordedCall { key, result }),
            None => self.is_broken = true,
        }
    }
}

/// The host calls of a finished request.
#[derive(Debug)]
pub(crate) struct RecordedCalls {
    ambient: Ambient,
    calls: Vec<RecordedCall>,
    /// The memory of the recording is free when this value is dropped.
    _charge: Arc<Charge>,
}

impl RecordedCalls {
    /// Returns the time and the randomness of the recorded request.
    pub(crate) fn ambient(&self) -> &Ambient {
        &self.ambient
    }
}

/// A replay in progress.
#[derive(Debug)]
pub(crate) struct Replay {
    ambient: Ambient,
    recorded: Arc<RecordedCalls>,
    /// Whether each recorded call was repeated.
    repeated: Vec<bool>,
    /// The index after the call that was repeated last.
    next: usize,
    missing: Option<MissingCall>,
}

/// A host call that the recording does not contain. The function has the form
/// `interface.function-name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingCall {
    pub(crate) function: String,
    /// Whether the recording contains other calls of the function.
    pub(crate) is_known: bool,
}

impl Replay {
    /// Starts a replay, with the time and the randomness `ambient`.
    pub(crate) fn new(recorded: &Arc<RecordedCalls>, ambient: Ambient) -> Self {
        Self {
            ambient,
            repeated: vec![false; recorded.calls.len()],
            recorded: Arc::clone(recorded),
            next: 0,
            missing: None,
        }
    }

    /// Returns the result of a call. Each recorded call is returned once. Calls can be repeated in
    /// another order. Of several calls with equal arguments, the first one after the last repeated
    /// call is returned. Returns `None` for a call that the recording does not contain.
    fn find(&mut self, key: Key) -> Option<&(dyn Any + Send + Sync)> {
        let calls = &self.recorded.calls;
        let mut order = (self.next..calls.len()).chain(0..self.next);
        let found = order.find(|&index| !self.repeated[index] && calls[index].key == key);
        let Some(index) = found else {
            self.missing.get_or_insert_with(|| MissingCall {
                function: name(key.function),
                is_known: calls.iter().any(|call| call.key.function == key.function),
            });
            return None;
        };
        self.repeated[index] = true;
        self.next = index + 1;
        Some(&*calls[index].result)
    }

    /// Returns the result of a call. A call that the recording does not contain has an error that
    /// ends the call of the guest.
    pub(super) fn replay<M, R: Recordable<M>>(&mut self, key: Key, table: &mut ResourceTable) -> R {
        match self.find(key) {
            Some(stored) => R::from_stored(stored, table),
            None => R::trap(wasmtime::Error::msg("the recording has no such call")),
        }
    }

    /// Ends the replay. Returns the first call that the recording does not contain, and the
    /// functions of the recorded calls that were not repeated, each function once.
    pub(crate) fn finish(self) -> (Option<MissingCall>, Vec<String>) {
        let calls = self.recorded.calls.iter().zip(&self.repeated);
        let left = calls.filter(|(_, repeated)| !**repeated);
        let mut left: Vec<_> = left.map(|(call, _)| name(call.key.function)).collect();
        left.sort();
        left.dedup();
        (self.missing, left)
    }
}

/// Returns the name of a function as in the WIT package.
fn name(function: &str) -> String {
    function.replace('_', "-")
}

#[cfg(test)]
mod tests;
