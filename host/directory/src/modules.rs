//! The installed modules. For each module, the database contains the active version and the bytes
//! of all stored versions.
//!
//! This module does not parse components, and does not check whether components can be loaded.

pub mod store;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error, Tx};
use crate::events::{self, Event, Kind};

const LIST: &str = "SELECT module, digest, enabled, source_digest FROM modules ORDER BY module";
const VERSIONS: &str = "SELECT digest, version, size, rank, served, installed_at, reference, artifact \
    FROM module_versions \
    WHERE module = $1 ORDER BY rank DESC";
const COMPONENT: &str = "SELECT component FROM module_components WHERE module = $1 AND digest = $2";

/// Gives the highest rank to a version that is installed again.
const RENEW: &str = "UPDATE module_versions SET installed_at = $3, reference = $4, artifact = $5, \
    rank = (SELECT MAX(rank) + 1 FROM module_versions WHERE module = $1) WHERE module = $1 AND digest = $2";
const KEEP: &str = "INSERT INTO module_versions (module, digest, version, size, rank, installed_at, reference, artifact) \
    VALUES ($1, $2, $3, $4, (SELECT COALESCE(MAX(rank), 0) + 1 FROM module_versions WHERE module = $1), $5, $6, $7)";
const KEEP_COMPONENT: &str =
    "INSERT INTO module_components (module, digest, component) VALUES ($1, $2, $3)";
const SERVE: &str = "INSERT INTO modules (module, digest, enabled, source_digest, changed_at) VALUES ($1, $2, TRUE, $3, $4) \
    ON CONFLICT (module) DO UPDATE SET digest = excluded.digest, enabled = TRUE, \
        source_digest = COALESCE(excluded.source_digest, modules.source_digest), changed_at = excluded.changed_at";
const FORGET_OLD: &str = "DELETE FROM module_versions WHERE module = $1 \
    AND digest NOT IN (SELECT digest FROM module_versions WHERE module = $1 ORDER BY rank DESC LIMIT $2) \
    AND digest NOT IN (SELECT digest FROM module_versions WHERE module = $1 AND served IS NOT NULL ORDER BY served DESC LIMIT 2)";
/// Gives the highest number in `served` to a version that is activated.
const BEGIN: &str = "UPDATE module_versions \
    SET served = (SELECT COALESCE(MAX(served), 0) + 1 FROM module_versions WHERE module = $1) WHERE module = $1 AND digest = $2";
/// Clears `served` of the versions that were activated after version $2, because a rollback to
/// version $2 replaces these versions. Changes nothing if `served` of version $2 is NULL.
const LEAVE: &str = "UPDATE module_versions SET served = NULL WHERE module = $1 \
    AND served > (SELECT served FROM module_versions WHERE module = $1 AND digest = $2)";
const ROLL_BACK: &str =
    "UPDATE modules SET digest = $2, enabled = TRUE, changed_at = $3 WHERE module = $1";
const SWITCH: &str = "UPDATE modules SET enabled = $2, changed_at = $3 WHERE module = $1";
const SET_SOURCE: &str = "UPDATE modules SET source_digest = $2 WHERE module = $1";
const REMOVE: &str = "DELETE FROM modules WHERE module = $1";
/// Serializes the changes of modules by several hosts. No other advisory lock uses this number.
const LOCK_CHANGES: &str = "SELECT pg_advisory_xact_lock(6016254203)";
/// Another module with the same name must not act for the owners who enabled this module.
const REMOVE_HANDLERS: &str = "DELETE FROM module_handlers WHERE module = $1";
const REMOVE_VERSIONS: &str = "DELETE FROM module_versions WHERE module = $1";

/// The state of an installed module.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Installed {
    /// The module's name.
    pub module: String,
    /// The digest of the active version. A disabled module has an active version too.
    pub digest: String,
    /// Whether the module handles requests.
    pub enabled: bool,
    /// The digest of the configured file when the service last read the file. `None` if the module
    /// never had a configured file.
    pub source_digest: Option<String>,
}

/// A stored version.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Version {
    /// SHA-256 of the component, 64 hexadecimal digits.
    pub digest: String,
    /// The version string of the component.
    pub version: String,
    /// The size of the component in bytes.
    pub size: i64,
    /// The order of installation. A version that was installed later has a higher rank.
    pub rank: i64,
    /// The order of activation. A version that was activated later has a higher number. `None` if a
    /// rollback replaced the version.
    pub served: Option<i64>,
    /// The time of the last installation, in milliseconds since the epoch.
    pub installed_at: i64,
    /// The reference of the artifact that contained the version, without a digest. `None` if the
    /// version was not installed from a registry.
    pub reference: Option<String>,
    /// The digest of the artifact's manifest.
    pub artifact: Option<String>,
}

/// The artifact of a registry that contains a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The reference, without a digest: `oci://HOST/REPOSITORY:TAG`.
    pub reference: String,
    /// The digest of the manifest: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

/// A version to store and activate.
#[derive(Clone, Copy, Debug)]
pub struct NewVersion<'a> {
    /// The module's name.
    pub module: &'a str,
    /// SHA-256 of the component, 64 hexadecimal digits.
    pub digest: &'a str,
    /// The version string of the component.
    pub version: &'a str,
    /// The bytes of the component.
    pub component: &'a [u8],
    /// Whether the component comes from the configured file.
    pub source: bool,
    /// The artifact that contained the component. `None` if the component does not come from a
    /// registry.
    pub artifact: Option<&'a Artifact>,
}

/// The lock for changes of modules. Other hosts that change a module wait until this value is
/// dropped.
#[derive(Debug)]
#[must_use = "dropping this value unlocks the modules"]
pub struct ChangeLock {
    _tx: Option<Tx>,
}

/// The installed modules, and the data that modules store for accounts.
#[derive(Clone, Debug)]
pub struct Modules {
    pub(crate) db: Db,
}

impl Modules {
    /// Waits until no other host changes a module, and locks the modules. Does not lock on SQLite,
    /// because only one host uses an SQLite database.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn lock_changes(&self) -> Result<ChangeLock, Error> {
        let mut tx = match &self.db {
            Db::Sqlite(..) => return Ok(ChangeLock { _tx: None }),
            Db::Postgres(_) => self.db.begin().await?,
        };
        tx.execute(LOCK_CHANGES, ()).await?;
        Ok(ChangeLock { _tx: Some(tx) })
    }

    /// Returns the installed modules, sorted by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn installed(&self) -> Result<Vec<Installed>, Error> {
        self.db.all(LIST, ()).await
    }

    /// Returns the stored versions of a module, the last installed version first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn versions(&self, module: &str) -> Result<Vec<Version>, Error> {
        self.db.all(VERSIONS, [module]).await
    }

    /// Returns the component of a version, or `None` if the version is not stored.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn component(&self, module: &str, digest: &str) -> Result<Option<Vec<u8>>, Error> {
        self.db.optional_value(COMPONENT, (module, digest)).await
    }

    /// Stores and activates versions, all of them or none. For each module, keeps the `keep`
    /// versions that were installed last, the active version, and the previously active version.
    /// Returns the stored versions of each module, like [`Modules::versions`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn install(
        &self,
        set: &[NewVersion<'_>],
        keep: u32,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Vec<Vec<Version>>, Error> {
        let mut tx = self.db.begin().await?;
        let mut versions = Vec::with_capacity(set.len());
        for new in set {
            store_version(&mut tx, new, now).await?;
            let row = (
                new.module,
                new.digest,
                new.source.then_some(new.digest),
                now,
            );
            tx.execute(SERVE, row).await?;
            tx.execute(BEGIN, (new.module, new.digest)).await?;
            tx.execute(FORGET_OLD, (new.module, keep)).await?;
            let detail = event_detail(new.version, new.digest);
            record(
                &mut tx,
                Kind::ModuleInstalled,
                new.module,
                &detail,
                now,
                origin,
            )
            .await?;
            versions.push(tx.all(VERSIONS, [new.module]).await?);
        }
        tx.commit().await?;
        Ok(versions)
    }

    /// Activates a stored version. Versions that were activated after this version do not count as
    /// previously active any longer. If an earlier rollback replaced this version, this activation
    /// counts as later than the activation of the current version.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails or the version is not stored. Nothing is changed in
    /// that case.
    pub async fn roll_back(
        &self,
        module: &str,
        to: &Version,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        tx.execute(ROLL_BACK, (module, &to.digest, now)).await?;
        let mark = if to.served.is_some() { LEAVE } else { BEGIN };
        tx.execute(mark, (module, &to.digest)).await?;
        let detail = event_detail(&to.version, &to.digest);
        record(
            &mut tx,
            Kind::ModuleRolledBack,
            module,
            &detail,
            now,
            origin,
        )
        .await?;
        tx.commit().await
    }

    /// Enables or disables a module.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn switch(
        &self,
        module: &str,
        enabled: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        tx.execute(SWITCH, (module, enabled, now)).await?;
        let kind = if enabled {
            Kind::ModuleEnabled
        } else {
            Kind::ModuleDisabled
        };
        record(&mut tx, kind, module, "", now, origin).await?;
        tx.commit().await
    }

    /// Stores the digest of the component file that the configuration names in `source`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record_source(&self, module: &str, digest: &str) -> Result<(), Error> {
        self.db.execute(SET_SOURCE, (module, digest)).await?;
        Ok(())
    }

    /// Deletes a module and all its versions. With `purge`, also deletes all data that the module
    /// stored for accounts. Returns `true` if anything was deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn remove(
        &self,
        module: &str,
        purge: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let mut gone = 0;
        // Delete the module's row first. Transactions that store data for the module lock this row,
        // so the deletion waits for these transactions.
        for query in [REMOVE, REMOVE_VERSIONS, REMOVE_HANDLERS] {
            gone += tx.execute(query, [module]).await?;
        }
        if purge {
            gone += tx.execute(store::FORGET, [module]).await?;
        }
        if gone == 0 {
            return Ok(false);
        }
        let detail = if purge { "purged" } else { "" };
        record(&mut tx, Kind::ModuleRemoved, module, detail, now, origin).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Stores a version. Writes the component only if the version is not stored.
async fn store_version(tx: &mut Tx, new: &NewVersion<'_>, now: Timestamp) -> Result<(), Error> {
    let reference = new.artifact.map(|artifact| &artifact.reference);
    let artifact = new.artifact.map(|artifact| &artifact.digest);
    let row = (new.module, new.digest, now, reference, artifact);
    let renewed = tx.execute(RENEW, row).await?;
    if renewed == 1 {
        return Ok(());
    }
    let row = (
        new.module,
        new.digest,
        new.version,
        i64::try_from(new.component.len()).unwrap_or(i64::MAX),
        now,
        reference,
        artifact,
    );
    tx.execute(KEEP, row).await?;
    tx.execute(KEEP_COMPONENT, (new.module, new.digest, new.component))
        .await?;
    Ok(())
}

fn event_detail(version: &str, digest: &str) -> String {
    let short = digest.get(..12).unwrap_or(digest);
    format!("{version} {short}")
}

async fn record(
    tx: &mut Tx,
    kind: Kind,
    module: &str,
    detail: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<(), Error> {
    let event = Event {
        detail: (!detail.is_empty()).then_some(detail),
        ..Event::without_account(kind, now).about(module)
    };
    events::record(tx, event, origin).await
}

#[cfg(test)]
mod tests;
