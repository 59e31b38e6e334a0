//! Functions of components that were compiled before. A new version of a component in JavaScript or
//! Python contains the same interpreter, so almost all of its functions are the same.
//!
//! The functions are in one file of the cache folder, and in memory only during a compilation. The
//! cache of Wasmtime ([`super::cache`]) contains whole components instead.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wasmtime::CacheStore;

use super::cache::{FOLDER, UNFINISHED};

/// The file in the cache folder.
const FILE: &str = "functions";

/// The maximum length of the file without its checksum, in bytes. The functions of a JavaScript and
/// of a Python interpreter together need less. If they do not fit, the functions that the current
/// component does not contain are removed.
const MAX_LENGTH: usize = 128 * 1024 * 1024;

/// The length of a key: the SHA-256 digest of a function, of the settings of the compiler and of
/// the compiler's version.
const KEY_LENGTH: usize = 32;

type Key = [u8; KEY_LENGTH];

/// The functions that were compiled before, and those that are compiled now.
pub(super) struct CompiledFunctions {
    file: PathBuf,
    /// The file until it is complete. It is removed as an unfinished file of Wasmtime if this
    /// process is killed.
    draft: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until the first function is needed.
    functions: Option<HashMap<Key, Function>>,
    /// The length of the entries in the file, in bytes.
    length: usize,
    /// Whether a function was added.
    changed: bool,
    /// Whether the unused functions were removed.
    evicted: bool,
}

struct Function {
    code: Vec<u8>,
    /// Whether the current component contains the function.
    used: bool,
}

impl std::fmt::Debug for CompiledFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledFunctions")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl CompiledFunctions {
    /// Uses the file in this folder. No other user must have write access to the folder, because
    /// the functions are run without a check ([`super::cache::cache`] checks this).
    pub(super) fn in_folder(cache_dir: &Path) -> Self {
        let draft = format!("{FILE}{UNFINISHED}{}", std::process::id());
        Self {
            file: cache_dir.join(FILE),
            draft: cache_dir.join(FOLDER).join(draft),
            state: Mutex::default(),
        }
    }

    /// Writes the file if a function was added. Errors are only logged, because without the file
    /// only the next compilation is slower.
    pub(super) fn save(&self) {
        let state = self.lock();
        let Some(functions) = state.functions.as_ref().filter(|_| state.changed) else {
            return;
        };
        let written =
            write(&self.draft, functions).and_then(|()| fs::rename(&self.draft, &self.file));
        if let Err(error) = written {
            let _ = fs::remove_file(&self.draft);
            tracing::warn!(file = %self.file.display(), %error, "failed to store compiled functions");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the functions. Reads the file at the first call. A missing or damaged file counts as
    /// empty.
    fn functions(&mut self, file: &Path) -> &mut HashMap<Key, Function> {
        if self.functions.is_none() {
            let read = read(file).unwrap_or_default();
            self.length = read.values().map(|function| length(&function.code)).sum();
            self.functions = Some(read);
        }
        self.functions.get_or_insert_default()
    }
}

impl CacheStore for CompiledFunctions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut state = self.lock();
        let function = state.functions(&self.file).get_mut(key)?;
        function.used = true;
        Some(Cow::Owned(function.code.clone()))
    }

    fn insert(&self, key: &[u8], code: Vec<u8>) -> bool {
        let Ok(key) = Key::try_from(key) else {
            return false;
        };
        let mut state = self.lock();
        if state.functions(&self.file).contains_key(&key) {
            return true;
        }
        let added = length(&code);
        if state.length + added > MAX_LENGTH && !state.evicted {
            state.evicted = true;
            let functions = state.functions(&self.file);
            functions.retain(|_, function| function.used);
            state.length = functions.values().map(|one| length(&one.code)).sum();
        }
        if state.length + added > MAX_LENGTH {
            return false;
        }
        state.length += added;
        state.changed = true;
        let function = Function { code, used: true };
        state.functions(&self.file).insert(key, function);
        true
    }
}

/// Returns the length of a function's entry in the file: the key, the length of the code, and the
/// code.
fn length(code: &[u8]) -> usize {
    KEY_LENGTH + size_of::<u32>() + code.len()
}

/// Reads the file. Returns `None` if the file does not exist, is too long or is damaged.
fn read(file: &Path) -> Option<HashMap<Key, Function>> {
    let max_length = MAX_LENGTH + size_of::<u32>();
    if fs::metadata(file).ok()?.len() > u64::try_from(max_length).ok()? {
        return None;
    }
    let bytes = fs::read(file).ok()?;
    let (mut entries, checksum) = bytes.split_last_chunk()?;
    if crc32fast::hash(entries) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let mut functions = HashMap::new();
    while !entries.is_empty() {
        let (key, rest) = entries.split_first_chunk::<KEY_LENGTH>()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (code, rest) = rest.split_at_checked(length)?;
        let code = code.to_vec();
        functions.insert(*key, Function { code, used: false });
        entries = rest;
    }
    Some(functions)
}

/// Writes the functions to a new file. The checksum at its end detects a file that is not complete
/// after a power failure.
fn write(file: &Path, functions: &HashMap<Key, Function>) -> io::Result<()> {
    let mut output = BufWriter::new(File::create(file)?);
    let mut checksum = crc32fast::Hasher::new();
    let mut put = |bytes: &[u8]| {
        checksum.update(bytes);
        output.write_all(bytes)
    };
    for (key, function) in functions {
        let length = u32::try_from(function.code.len()).map_err(io::Error::other)?;
        put(key)?;
        put(&length.to_le_bytes())?;
        put(&function.code)?;
    }
    output.write_all(&checksum.finalize().to_le_bytes())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_again_and_a_damaged_file_is_ignored() {
        let folder = std::env::temp_dir().join(format!("lm-functions-{}", std::process::id()));
        fs::create_dir_all(folder.join(FOLDER)).unwrap();
        let open = || CompiledFunctions::in_folder(&folder);
        let first = open();
        assert!(first.get(&[1; KEY_LENGTH]).is_none());
        assert!(first.insert(&[1; KEY_LENGTH], b"one".to_vec()));
        assert!(first.insert(&[2; KEY_LENGTH], Vec::new()));
        assert!(!first.insert(b"short", Vec::new()));
        first.save();
        let second = open();
        assert_eq!(second.get(&[1; KEY_LENGTH]).as_deref(), Some(&b"one"[..]));
        assert_eq!(second.get(&[2; KEY_LENGTH]).as_deref(), Some(&b""[..]));
        let file = folder.join(FILE);
        let mut bytes = fs::read(&file).unwrap();
        bytes[40] ^= 1;
        fs::write(&file, bytes).unwrap();
        assert!(open().get(&[2; KEY_LENGTH]).is_none());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn unused_functions_are_removed_when_the_file_is_full() {
        let functions = CompiledFunctions::in_folder(Path::new("/nonexistent"));
        let third = || vec![0; MAX_LENGTH / 3];
        for key in 1..=2 {
            assert!(functions.insert(&[key; KEY_LENGTH], third()));
        }
        let mut state = functions.lock();
        let all = state.functions.as_mut().unwrap();
        all.get_mut(&[1; KEY_LENGTH]).unwrap().used = false;
        drop(state);
        assert!(functions.insert(&[3; KEY_LENGTH], third()));
        assert!(functions.get(&[1; KEY_LENGTH]).is_none());
        assert!(functions.get(&[2; KEY_LENGTH]).is_some());
        assert!(!functions.insert(&[4; KEY_LENGTH], third()));
    }
}
