//! The file `backup.json`, which describes a backup. It contains no secrets.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use chrono::DateTime;
use latchmail_core::clock::Timestamp;
use latchmail_core::hexadecimal;
use latchmail_core::keyring::Keyring;
use latchmail_terminal::output::escape;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::write_private;

const FILE: &str = "backup.json";
/// The copy of an `SQLite` database.
pub(crate) const DATABASE_FILE: &str = "latchmail.db";
/// The archive of a `PostgreSQL` database.
pub(crate) const DATABASE_DUMP: &str = "latchmail.dump";
/// The last log-ins of mail clients, with `SQLite`.
pub(crate) const LAST_LOGINS: &str = "last-logins.json";

/// The version of the format of backups.
const FORMAT: u32 = 1;

/// The kind of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Sqlite,
    Postgresql,
}

/// The description of a backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    format: u32,
    /// The version of the program.
    program: String,
    /// The time at which the backup began.
    time: String,
    pub(crate) database: Kind,
    /// The version of the last migration.
    pub(crate) schema: i64,
    /// The name of the schema that contains the tables, with `PostgreSQL`.
    pub(crate) database_schema: Option<String>,
    /// The id of the current key. This is not always the first key of the key file: a new key can
    /// be pending.
    current_key: String,
    /// The ids of all keys.
    keys: Vec<String>,
    files: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    name: String,
    size: u64,
    sha256: String,
}

/// The part of a manifest that has the same form in all formats.
#[derive(Deserialize)]
struct Format {
    format: u32,
    program: String,
}

impl Manifest {
    pub(crate) fn new(time: Timestamp, keyring: &Keyring) -> Self {
        Self {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            time: time.to_string(),
            database: Kind::Sqlite,
            schema: 0,
            database_schema: None,
            current_key: keyring.current().kid.clone(),
            keys: keyring.all().iter().map(|key| key.kid.clone()).collect(),
            files: Vec::new(),
        }
    }

    /// Sets the id of the current key. `kid` is the id in the database. Returns `false` if the key
    /// file does not contain this key.
    pub(crate) fn set_current_key(&mut self, kid: String) -> bool {
        let is_known = self.keys.contains(&kid);
        self.current_key = kid;
        is_known
    }

    /// Writes the manifest with the checksums of the files.
    pub(crate) fn write(mut self, dir: &Path, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            let (size, sha256) = checksum(&dir.join(name))?;
            self.files.push(Entry {
                name: name.clone(),
                size,
                sha256,
            });
        }
        let mut text = serde_json::to_vec_pretty(&self)?;
        text.push(b'\n');
        write_private(&dir.join(FILE), &text)
    }

    /// Reads the manifest of a backup, and checks the files.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        let file = dir.join(FILE);
        let text = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "{} is not a complete backup: it contains no {FILE}",
                dir.display()
            ),
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let damaged = || format!("{} is damaged", file.display());
        let format: Format = serde_json::from_slice(&text).with_context(damaged)?;
        if format.format != FORMAT {
            bail!(
                "the backup has the format {}, which this version does not know; Latchmail {} made it",
                format.format,
                escape(&format.program)
            );
        }
        let manifest: Self = serde_json::from_slice(&text).with_context(damaged)?;
        manifest.time()?;
        for entry in &manifest.files {
            // Reject a name with a path, because the path could lead outside the backup. `write`
            // stores only names without a path.
            if Path::new(&entry.name).file_name() != Some(entry.name.as_ref()) {
                bail!("{}", damaged());
            }
            let path = dir.join(&entry.name);
            let (size, sha256) = checksum(&path)?;
            if size != entry.size || sha256 != entry.sha256 {
                bail!(
                    "{} is damaged: its checksum is not the one in {FILE}",
                    path.display()
                );
            }
        }
        let required = match manifest.database {
            Kind::Sqlite => DATABASE_FILE,
            Kind::Postgresql => DATABASE_DUMP,
        };
        if !manifest.contains(required) {
            bail!("the backup contains no file {required}");
        }
        Ok(manifest)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.files.iter().any(|entry| entry.name == name)
    }

    /// Returns the time of the backup.
    pub(crate) fn time(&self) -> anyhow::Result<Timestamp> {
        let time = DateTime::parse_from_rfc3339(&self.time);
        let time = time.with_context(|| format!("the time in {FILE} is not valid"))?;
        Ok(Timestamp::from_millis(time.timestamp_millis()))
    }

    /// Checks that the keyring contains the current key of the backup. Returns the ids of missing
    /// earlier keys.
    pub(crate) fn check_keys(&self, keyring: &Keyring) -> anyhow::Result<Vec<&str>> {
        let is_missing = |kid: &&str| keyring.by_kid(kid).is_none();
        if is_missing(&self.current_key.as_str()) {
            bail!(
                "the key file does not contain the key {} of the backup; without this key, no mailbox can be opened",
                escape(&self.current_key)
            );
        }
        let keys = self.keys.iter().map(String::as_str);
        Ok(keys.filter(is_missing).collect())
    }
}

/// Returns the size and the SHA-256 hash of a file.
fn checksum(path: &Path) -> anyhow::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let size = File::open(path)
        .and_then(|mut file| {
            let mut buffer = vec![0; 1 << 20];
            let mut size = 0;
            loop {
                let length = io::Read::read(&mut file, &mut buffer)?;
                if length == 0 {
                    return Ok(size);
                }
                hash.update(&buffer[..length]);
                size += length as u64;
            }
        })
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok((size, hexadecimal::lower(&hash.finalize())))
}
