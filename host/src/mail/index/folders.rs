//! What is noted of folders: their paths, their UIDVALIDITY, and from which UID on messages may have come that nobody looked at.

use std::collections::{HashMap, HashSet};

use super::Opened;
use crate::directory::Db;
use crate::directory::db::{Error, Tx, on, on_tx};
use crate::hexadecimal;

const ALL: &str = "SELECT id, path, uid_validity, uid_next, object_id FROM folders WHERE account_id = $1 ORDER BY path";
const ANY: &str = "SELECT 1 FROM folders WHERE account_id = $1 LIMIT 1";
const ADD: &str = "INSERT INTO folders (account_id, id, path, uid_validity, uid_next, object_id) VALUES ($1, $2, $3, $4, $5, $6)";
const CHANGE: &str = "UPDATE folders SET path = $3, uid_validity = $4, uid_next = $5, object_id = $6 WHERE account_id = $1 AND id = $2";
const SEEN_TO: &str = "UPDATE folders SET uid_next = $4 \
     WHERE account_id = $1 AND path = $2 AND uid_validity = $3 AND uid_next < $4";
/// No folder is called so: a name has no line feed. What is gone keeps its messages' rows.
const ASIDE: &str = "UPDATE folders SET path = '\n' || id WHERE id = $1";

/// A folder as it is noted.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(in crate::mail) struct Noted {
    pub(in crate::mail) id: String,
    pub(in crate::mail) path: String,
    uid_validity: i64,
    uid_next: i64,
    object_id: Option<String>,
}

/// A folder as the mail server lists it.
#[derive(Clone, Debug)]
pub(in crate::mail) struct Seen {
    pub(in crate::mail) path: String,
    pub(in crate::mail) opened: Opened,
    /// The mail server's id of it, if the server has such.
    pub(in crate::mail) object_id: Option<String>,
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

    /// Whether it is this folder, under the same path. A server that has no ids at the moment does not make it another one.
    pub(in crate::mail) fn is(&self, seen: &Seen) -> bool {
        self.path == seen.path
            && self.uid_validity() == seen.opened.uid_validity
            && (seen.object_id.is_none() || self.object_id == seen.object_id)
    }

    /// The same as listed now. Every message under another UIDVALIDITY has a new location.
    fn as_seen(&self, seen: &Seen, object_id: Option<&str>) -> Self {
        let same = self.uid_validity() == seen.opened.uid_validity;
        Self {
            id: self.id.clone(),
            path: seen.path.clone(),
            uid_validity: i64::from(seen.opened.uid_validity),
            uid_next: if same { self.uid_next } else { 1 },
            object_id: object_id.or(self.object_id()).map(ToOwned::to_owned),
        }
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

/// Notes all folders of an account as they are listed now, and returns them in that order.
///
/// A listed folder is the noted one with the same id of the mail server. If it has none, it is the one with the same path and UIDVALIDITY that has no
/// such id either. Otherwise it is new. The first time, only what comes into a folder later can be a message that left its location: it lies at or
/// above UIDNEXT. Any message of a folder that is new after that may have come from elsewhere. What is not listed any more keeps its row, so that
/// its messages are recognized where they are now, but not its path if another folder has it.
pub(in crate::mail) async fn note(
    db: &Db,
    account: &str,
    folders: &[Seen],
) -> Result<Vec<Noted>, Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    let noted: Vec<Noted> =
        on_tx!(&mut tx, tx => sqlx::query_as(ALL).bind(account).fetch_all(tx).await)?;
    let now = matched(folders, &noted)?;
    let are: HashMap<&str, &Noted> = now.iter().map(|n| (n.id.as_str(), n)).collect();
    let taken: HashMap<&str, &Noted> = now.iter().map(|n| (n.path.as_str(), n)).collect();
    for was in &noted {
        // Folders may have exchanged their paths: all give up theirs first.
        let moves = are.get(was.id.as_str()).is_some_and(|n| n.path != was.path);
        let displaced = taken.get(was.path.as_str()).is_some_and(|n| n.id != was.id);
        if moves || displaced {
            on_tx!(&mut tx, tx => sqlx::query(ASIDE).bind(&was.id).execute(tx).await.map(drop))?;
        }
    }
    let had: HashMap<&str, &Noted> = noted.iter().map(|n| (n.id.as_str(), n)).collect();
    let mut written = HashSet::new();
    for folder in now.iter().filter(|n| written.insert(n.id.as_str())) {
        match had.get(folder.id.as_str()) {
            Some(was) if *was == folder => {}
            Some(_) => folder.write(&mut tx, account, CHANGE).await?,
            None => folder.write(&mut tx, account, ADD).await?,
        }
    }
    tx.commit().await?;
    Ok(now)
}

/// The folders to note, in the order in which they were listed.
fn matched(folders: &[Seen], noted: &[Noted]) -> Result<Vec<Noted>, Error> {
    let by_path: HashMap<&str, &Noted> = noted.iter().map(|n| (n.path.as_str(), n)).collect();
    let by_id: HashMap<&str, &Noted> = noted
        .iter()
        .filter_map(|n| Some((n.object_id()?, n)))
        .collect();
    // A server may list one folder under several paths. The one under which it is noted has the id, else the first.
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for seen in folders {
        if let Some(id) = seen.object_id.as_deref() {
            let owner = owners.entry(id).or_insert(&seen.path);
            if by_id.get(id).is_some_and(|n| n.path == seen.path) {
                *owner = &seen.path;
            }
        }
    }
    let first = noted.is_empty();
    let mut now: Vec<Noted> = Vec::with_capacity(folders.len());
    let mut places: HashMap<&str, usize> = HashMap::new();
    for seen in folders {
        // A server may list a name twice that is one path for clients.
        if let Some(place) = places.insert(&seen.path, now.len()) {
            now.push(now[place].clone());
            continue;
        }
        let object_id = seen.object_id.as_deref();
        let object_id = object_id.filter(|id| owners[id] == seen.path);
        let same = object_id.and_then(|id| by_id.get(id));
        let alike = || {
            let found = by_path.get(seen.path.as_str())?;
            let alike = found.uid_validity() == seen.opened.uid_validity
                && (found.object_id.is_none() || seen.object_id.is_none());
            alike.then_some(found)
        };
        now.push(match same.or_else(alike) {
            Some(found) => found.as_seen(seen, object_id),
            None => Noted {
                id: fresh_id()?,
                path: seen.path.clone(),
                uid_validity: i64::from(seen.opened.uid_validity),
                uid_next: i64::from(if first { seen.opened.uid_next } else { 1 }),
                object_id: object_id.map(ToOwned::to_owned),
            },
        });
    }
    Ok(now)
}

impl Noted {
    async fn write(&self, tx: &mut Tx, account: &str, how: &'static str) -> Result<(), Error> {
        on_tx!(tx, tx => sqlx::query(how)
            .bind(account)
            .bind(&self.id)
            .bind(&self.path)
            .bind(self.uid_validity)
            .bind(self.uid_next)
            .bind(&self.object_id)
            .execute(tx)
            .await
            .map(drop))?;
        Ok(())
    }
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

fn fresh_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::Unusable(format!("the system gives no randomness: {e}")))?;
    Ok(hexadecimal::lower(&bytes))
}
