//! The modules that were installed: which version of each serves, and the bytes of every version that is kept.
//!
//! What is in a component, and whether it may be loaded, is not known here.

use super::db::{Tx, on, on_tx};
use super::events::{self, Event, Kind};
use super::{Directory, Error, store};
use crate::caller::Origin;
use crate::clock::Timestamp;

const LIST: &str = "SELECT module, digest, enabled, source_digest FROM modules ORDER BY module";
const VERSIONS: &str = "SELECT digest, version, size, rank, served, installed_at FROM module_versions \
    WHERE module = $1 ORDER BY rank DESC";
const COMPONENT: &str = "SELECT component FROM module_components WHERE module = $1 AND digest = $2";

/// One that is installed again is the newest again.
const RENEW: &str = "UPDATE module_versions SET installed_at = $3, \
    rank = (SELECT MAX(rank) + 1 FROM module_versions WHERE module = $1) WHERE module = $1 AND digest = $2";
const KEEP: &str = "INSERT INTO module_versions (module, digest, version, size, rank, installed_at) \
    VALUES ($1, $2, $3, $4, (SELECT COALESCE(MAX(rank), 0) + 1 FROM module_versions WHERE module = $1), $5)";
const KEEP_COMPONENT: &str =
    "INSERT INTO module_components (module, digest, component) VALUES ($1, $2, $3)";
const SERVE: &str = "INSERT INTO modules (module, digest, enabled, source_digest, changed_at) VALUES ($1, $2, TRUE, $3, $4) \
    ON CONFLICT (module) DO UPDATE SET digest = excluded.digest, enabled = TRUE, \
        source_digest = COALESCE(excluded.source_digest, modules.source_digest), changed_at = excluded.changed_at";
const FORGET_OLD: &str = "DELETE FROM module_versions WHERE module = $1 \
    AND digest NOT IN (SELECT digest FROM module_versions WHERE module = $1 ORDER BY rank DESC LIMIT $2) \
    AND digest NOT IN (SELECT digest FROM module_versions WHERE module = $1 AND served IS NOT NULL ORDER BY served DESC LIMIT 2)";
/// Whatever serves from now on is the last of those that served.
const BEGIN: &str = "UPDATE module_versions \
    SET served = (SELECT COALESCE(MAX(served), 0) + 1 FROM module_versions WHERE module = $1) WHERE module = $1 AND digest = $2";
/// Those that began to serve later than this one, where it is one of them, are rolled away from.
const LEAVE: &str = "UPDATE module_versions SET served = NULL WHERE module = $1 \
    AND served > (SELECT served FROM module_versions WHERE module = $1 AND digest = $2)";
const ROLL_BACK: &str =
    "UPDATE modules SET digest = $2, enabled = TRUE, changed_at = $3 WHERE module = $1";
const SWITCH: &str = "UPDATE modules SET enabled = $2, changed_at = $3 WHERE module = $1";
const SEEN: &str = "UPDATE modules SET source_digest = $2 WHERE module = $1";
const REMOVE: &str = "DELETE FROM modules WHERE module = $1";
const REMOVE_VERSIONS: &str = "DELETE FROM module_versions WHERE module = $1";

/// What is to become of a module, as it was last decided.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Installed {
    /// Its name.
    pub module: String,
    /// The digest of the version that serves, or would if it were enabled.
    pub digest: String,
    /// Whether it serves.
    pub enabled: bool,
    /// The digest of the configuration's file when it was last looked at; none where there never was one.
    pub source_digest: Option<String>,
}

/// A version that is kept.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Version {
    /// SHA-256 of the component, 64 hexadecimal digits.
    pub digest: String,
    /// As it calls itself.
    pub version: String,
    /// Of the component, in bytes.
    pub size: i64,
    /// The higher, the later it was installed.
    pub rank: i64,
    /// The higher, the later it began to serve; none where it was rolled away from.
    pub served: Option<i64>,
    /// When it was last installed, in milliseconds since the epoch.
    pub installed_at: i64,
}

/// A version to be kept and to serve.
#[derive(Clone, Copy, Debug)]
pub struct NewVersion<'a> {
    /// The module's name.
    pub module: &'a str,
    /// SHA-256 of the component, 64 hexadecimal digits.
    pub digest: &'a str,
    /// As it calls itself.
    pub version: &'a str,
    /// The component.
    pub component: &'a [u8],
    /// Whether it is the configuration's file.
    pub source: bool,
}

impl Directory {
    /// The modules that were installed, by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn installed_modules(&self) -> Result<Vec<Installed>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(LIST).fetch_all(pool).await)?)
    }

    /// The versions of a module that are kept, the one installed last first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn module_versions(&self, module: &str) -> Result<Vec<Version>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(VERSIONS)
            .bind(module)
            .fetch_all(pool).await)?)
    }

    /// The component of a version; none where it is not kept.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn module_component(
        &self,
        module: &str,
        digest: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_scalar(COMPONENT)
            .bind(module)
            .bind(digest)
            .fetch_optional(pool).await)?)
    }

    /// Keeps versions and lets them serve, all of them or none. Of each module the `keep` that were installed last stay, the one that serves, and the one that
    /// served before it. Answers what is kept of each by then, as [`Directory::module_versions`] does.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn install_modules(
        &self,
        set: &[NewVersion<'_>],
        keep: u32,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Vec<Vec<Version>>, Error> {
        let mut tx = self.db.begin().await?;
        let mut versions = Vec::with_capacity(set.len());
        for new in set {
            kept(&mut tx, new, now).await?;
            on_tx!(&mut tx, db => sqlx::query(SERVE)
                .bind(new.module)
                .bind(new.digest)
                .bind(new.source.then_some(new.digest))
                .bind(now.millis())
                .execute(db).await.map(drop))?;
            began(&mut tx, new.module, new.digest).await?;
            on_tx!(&mut tx, db => sqlx::query(FORGET_OLD)
                .bind(new.module)
                .bind(i64::from(keep))
                .execute(db).await.map(drop))?;
            let detail = told(new.version, new.digest);
            record(
                &mut tx,
                Kind::ModuleInstalled,
                new.module,
                &detail,
                now,
                origin,
            )
            .await?;
            versions.push(on_tx!(&mut tx, db => sqlx::query_as(VERSIONS)
                .bind(new.module)
                .fetch_all(db).await)?);
        }
        tx.commit().await?;
        Ok(versions)
    }

    /// Lets a version that is kept serve again. Those that began to serve after it are not what served before any more; one that was rolled away from comes
    /// after the one that serves.
    ///
    /// # Errors
    /// [`Error`] where the database fails or does not keep it; nothing was changed then.
    pub async fn roll_module_back(
        &self,
        module: &str,
        to: &Version,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        on_tx!(&mut tx, db => sqlx::query(ROLL_BACK)
            .bind(module)
            .bind(&to.digest)
            .bind(now.millis())
            .execute(db).await.map(drop))?;
        match to.served {
            Some(_) => on_tx!(&mut tx, db => sqlx::query(LEAVE)
                .bind(module)
                .bind(&to.digest)
                .execute(db).await.map(drop))?,
            None => began(&mut tx, module, &to.digest).await?,
        }
        let detail = told(&to.version, &to.digest);
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

    /// Switches a module on or off.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn switch_module(
        &self,
        module: &str,
        enabled: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        on_tx!(&mut tx, db => sqlx::query(SWITCH)
            .bind(module)
            .bind(enabled)
            .bind(now.millis())
            .execute(db).await.map(drop))?;
        let kind = if enabled {
            Kind::ModuleEnabled
        } else {
            Kind::ModuleDisabled
        };
        record(&mut tx, kind, module, "", now, origin).await?;
        tx.commit().await
    }

    /// Remembers that the configuration's file was looked at.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn saw_module_source(&self, module: &str, digest: &str) -> Result<(), Error> {
        on!(&self.db, pool => sqlx::query(SEEN)
            .bind(module)
            .bind(digest)
            .execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Forgets a module and every version of it; to `purge` it is to forget all that it ever kept for accounts, too. Whether there was anything of it.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn remove_module(
        &self,
        module: &str,
        purge: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let mut gone = 0;
        // Its own row first: whoever writes for it holds that, and is waited for.
        for query in [REMOVE, REMOVE_VERSIONS] {
            gone += on_tx!(&mut tx, db => sqlx::query(query)
                .bind(module)
                .execute(db).await.map(|done| done.rows_affected()))?;
        }
        if purge {
            gone += store::forget(&mut tx, module).await?;
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

/// Keeps a version. Its component is written once only.
async fn kept(tx: &mut Tx, new: &NewVersion<'_>, now: Timestamp) -> Result<(), Error> {
    let renewed = on_tx!(tx, db => sqlx::query(RENEW)
        .bind(new.module)
        .bind(new.digest)
        .bind(now.millis())
        .execute(db).await.map(|done| done.rows_affected()))?;
    if renewed == 1 {
        return Ok(());
    }
    on_tx!(tx, db => sqlx::query(KEEP)
        .bind(new.module)
        .bind(new.digest)
        .bind(new.version)
        .bind(i64::try_from(new.component.len()).unwrap_or(i64::MAX))
        .bind(now.millis())
        .execute(db).await.map(drop))?;
    on_tx!(tx, db => sqlx::query(KEEP_COMPONENT)
        .bind(new.module)
        .bind(new.digest)
        .bind(new.component)
        .execute(db).await.map(drop))?;
    Ok(())
}

async fn began(tx: &mut Tx, module: &str, digest: &str) -> Result<(), Error> {
    Ok(on_tx!(tx, db => sqlx::query(BEGIN)
        .bind(module)
        .bind(digest)
        .execute(db).await.map(drop))?)
}

fn told(version: &str, digest: &str) -> String {
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
        kind,
        account: None,
        address: "",
        subject: Some(module),
        detail: (!detail.is_empty()).then_some(detail),
        at: now,
    };
    events::record(tx, event, origin).await
}

#[cfg(test)]
mod tests;
