//! What is noted of folders: their paths, their UIDVALIDITY, and from which UID on messages may have come that nobody looked at.

use super::Opened;
use crate::directory::Db;
use crate::directory::db::{Error, Tx, on, on_tx};
use crate::hexadecimal;
use crate::mail::identity::Identity;

const ALL: &str = "SELECT id, path, uid_validity, uid_next, object_id FROM folders WHERE account_id = $1 ORDER BY path";
const ANY: &str = "SELECT 1 FROM folders WHERE account_id = $1 LIMIT 1";
const ADD: &str = "INSERT INTO folders (id, account_id, path, uid_validity, uid_next) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (account_id, path) DO NOTHING";
const BY_PATH: &str = "SELECT id, uid_validity FROM folders WHERE account_id = $1 AND path = $2";
const NAME: &str = "UPDATE folders SET object_id = $2 WHERE id = $1";
/// The mail server's id is one folder's: what was set aside gives it up.
const UNNAME: &str = "UPDATE folders SET object_id = NULL WHERE object_id = $2 AND id <> $1 \
     AND account_id = (SELECT account_id FROM folders WHERE id = $1)";
const SEEN_TO: &str = "UPDATE folders SET uid_next = $4 \
     WHERE account_id = $1 AND path = $2 AND uid_validity = $3 AND uid_next < $4";
const SAMPLE: &str = "SELECT imap_uid, identity FROM messages \
     WHERE folder_id = $1 AND uid_validity = $2 ORDER BY imap_uid DESC LIMIT 20";
/// No folder is called so: a name has no line feed. What is gone keeps its messages' rows.
const ASIDE: &str = "UPDATE folders SET path = '\n' || id WHERE account_id = $1 AND path = $2";
const RENAME: &str = "UPDATE folders SET path = $2 WHERE id = $1";

/// A folder as it is noted.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(in crate::mail) struct Noted {
    pub(in crate::mail) id: String,
    pub(in crate::mail) path: String,
    uid_validity: i64,
    uid_next: i64,
    object_id: Option<String>,
}

/// A folder as it is to be noted.
#[derive(Clone, Copy, Debug)]
pub(in crate::mail) struct Seen<'a> {
    pub(in crate::mail) path: &'a str,
    pub(in crate::mail) opened: Opened,
    pub(in crate::mail) object_id: Option<&'a str>,
}

impl Noted {
    /// Its id for clients: the mail server's, where it has one, else the service's own.
    pub(in crate::mail) fn public_id(&self) -> &str {
        self.object_id.as_deref().unwrap_or(&self.id)
    }

    /// The mail server's id, where it is known.
    pub(in crate::mail) fn object_id(&self) -> Option<&str> {
        self.object_id.as_deref()
    }

    /// Under which its UIDs hold.
    pub(in crate::mail) fn uid_validity(&self) -> u32 {
        u32::try_from(self.uid_validity).unwrap_or(0)
    }

    /// From which UID on messages may have come that nobody looked at.
    pub(in crate::mail) fn uid_next(&self) -> u32 {
        u32::try_from(self.uid_next).unwrap_or(1)
    }
}

/// Whether anything is noted of an account.
pub(in crate::mail) async fn is_known(db: &Db, account: &str) -> Result<bool, Error> {
    let any: Option<i32> =
        on!(db, pool => sqlx::query_scalar(ANY).bind(account).fetch_optional(pool).await)?;
    Ok(any.is_some())
}

/// The folders of an account that are noted, by path.
pub(in crate::mail) async fn noted_folders(db: &Db, account: &str) -> Result<Vec<Noted>, Error> {
    Ok(on!(db, pool => sqlx::query_as(ALL).bind(account).fetch_all(pool).await)?)
}

/// Notes folders as they stand before any of their messages has a number: what comes into them later lies at or above their UIDNEXT.
pub(in crate::mail) async fn survey(
    db: &Db,
    account: &str,
    folders: &[Seen<'_>],
) -> Result<(), Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    for folder in folders {
        let uid_next = i64::from(folder.opened.uid_next);
        let id = add(&mut tx, account, folder.path, folder.opened, uid_next).await?;
        name(&mut tx, &id, folder.object_id).await?;
    }
    tx.commit().await
}

/// Notes folders that were not there when others were, and those that were made anew: any message in them may have come from elsewhere.
pub(in crate::mail) async fn note(
    db: &Db,
    account: &str,
    folders: &[Seen<'_>],
) -> Result<(), Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    for folder in folders {
        let id = noted_at(&mut tx, account, folder.path, folder.opened).await?;
        name(&mut tx, &id, folder.object_id).await?;
    }
    tx.commit().await
}

async fn name(tx: &mut Tx, id: &str, object_id: Option<&str>) -> Result<(), Error> {
    if object_id.is_some() {
        for change in [UNNAME, NAME] {
            on_tx!(tx, tx => sqlx::query(change).bind(id).bind(object_id).execute(tx).await.map(drop))?;
        }
    }
    Ok(())
}

/// Whether a folder of this name is noted that is not this one.
pub(in crate::mail) async fn is_another(
    db: &Db,
    account: &str,
    path: &str,
    opened: Opened,
) -> Result<bool, Error> {
    let known: Option<(String, i64)> = on!(db, pool => sqlx::query_as(BY_PATH)
        .bind(account)
        .bind(path)
        .fetch_optional(pool)
        .await)?;
    Ok(known.is_some_and(|(_, validity)| validity != i64::from(opened.uid_validity)))
}

/// The folder's id, once it is noted. One that was not there at the survey is new: any message in it may have come from elsewhere. One under another
/// UIDVALIDITY is another folder; what was noted under its name keeps its own id, and waits to be found under the name that it has by now.
pub(super) async fn noted(
    tx: &mut Tx,
    account: &str,
    path: &str,
    opened: Opened,
    known: Option<(String, i64)>,
) -> Result<String, Error> {
    match known {
        Some((id, seen)) if seen == i64::from(opened.uid_validity) => return Ok(id),
        Some(_) => {
            on_tx!(&mut *tx, tx => sqlx::query(ASIDE).bind(account).bind(path).execute(tx).await.map(drop))?;
        }
        None => {}
    }
    add(tx, account, path, opened, 1).await
}

/// The same of a folder of which nothing was looked up yet.
pub(super) async fn noted_at(
    tx: &mut Tx,
    account: &str,
    path: &str,
    opened: Opened,
) -> Result<String, Error> {
    let known: Option<(String, i64)> = on_tx!(&mut *tx, tx => sqlx::query_as(BY_PATH)
        .bind(account)
        .bind(path)
        .fetch_optional(tx)
        .await)?;
    noted(tx, account, path, opened, known).await
}

async fn add(
    tx: &mut Tx,
    account: &str,
    path: &str,
    opened: Opened,
    uid_next: i64,
) -> Result<String, Error> {
    let id = fresh_id()?;
    on_tx!(tx, tx => sqlx::query(ADD)
        .bind(&id)
        .bind(account)
        .bind(path)
        .bind(i64::from(opened.uid_validity))
        .bind(uid_next)
        .execute(tx)
        .await
        .map(drop))?;
    Ok(id)
}

/// Every message of a folder below `uid_next` was looked at.
pub(in crate::mail) async fn seen_to(
    db: &Db,
    account: &str,
    path: &str,
    uid_validity: u32,
    uid_next: u32,
) -> Result<(), Error> {
    on!(db, pool => sqlx::query(SEEN_TO)
        .bind(account)
        .bind(path)
        .bind(i64::from(uid_validity))
        .bind(i64::from(uid_next))
        .execute(pool)
        .await
        .map(drop))?;
    Ok(())
}

/// The newest messages of a folder, by which it can be recognised under another name: IMAP UID and identity.
pub(in crate::mail) async fn sample(
    db: &Db,
    folder: &Noted,
) -> Result<Vec<(u32, Identity)>, Error> {
    let rows: Vec<(i64, Vec<u8>)> = on!(db, pool => sqlx::query_as(SAMPLE)
        .bind(&folder.id)
        .bind(folder.uid_validity)
        .fetch_all(pool)
        .await)?;
    let sample = rows.into_iter().filter_map(|(uid, identity)| {
        Some((u32::try_from(uid).ok()?, Identity::try_from(identity).ok()?))
    });
    Ok(sample.collect())
}

/// Folders were renamed: each by its id, with its path now. Their messages go with them.
pub(in crate::mail) async fn follow(
    db: &Db,
    account: &str,
    renamed: &[(Noted, String)],
) -> Result<(), Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    // Two may have changed names: all let go of theirs first.
    let paths = renamed.iter().flat_map(|(was, now)| [&was.path, now]);
    for path in paths {
        on_tx!(&mut tx, tx => sqlx::query(ASIDE).bind(account).bind(path).execute(tx).await.map(drop))?;
    }
    for (was, now) in renamed {
        on_tx!(&mut tx, tx => sqlx::query(RENAME).bind(&was.id).bind(now).execute(tx).await.map(drop))?;
    }
    tx.commit().await
}

fn fresh_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::Unusable(format!("the system gives no randomness: {e}")))?;
    Ok(hexadecimal::lower(&bytes))
}
