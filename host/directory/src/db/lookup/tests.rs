use std::sync::mpsc;

use super::*;
use crate::testing::{Fresh, both, on_sqlite};

const ACCOUNT: &str = "SELECT address, admin FROM accounts WHERE id = $1";

#[derive(Debug, PartialEq)]
struct Seen {
    address: String,
    admin: bool,
}

impl FromLookup for Seen {
    fn of(row: &Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            address: row.get("address")?,
            admin: row.get("admin")?,
        })
    }
}

async fn what_was_committed_a_moment_ago_is_seen(fresh: Fresh) {
    let directory = &fresh.directory;
    let ada = [Parameter::from("ada")];
    let look = || directory.lookup.one::<Seen>(ACCOUNT, &ada);
    assert_eq!(look().await.unwrap(), None);
    directory.with("ada", "ada@example.org", &[]).await;
    let seen = Seen {
        address: "ada@example.org".into(),
        admin: false,
    };
    assert_eq!(look().await.unwrap(), Some(seen));
}

async fn a_parameter_is_known_by_its_number(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    let query = "SELECT address, admin FROM accounts WHERE address = $2 AND id = $1 AND id = $1";
    let parameters = ["ada".into(), "ada@example.org".into()];
    let found = directory.lookup.one::<Seen>(query, &parameters).await;
    assert!(found.unwrap().is_some());
    let exchanged = ["ada@example.org".into(), "ada".into()];
    let found = directory.lookup.one::<Seen>(query, &exchanged).await;
    assert!(found.unwrap().is_none());
}

async fn a_column_that_is_not_there_or_is_another_is_an_error(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    let ada = [Parameter::from("ada")];
    for query in [
        "SELECT address FROM accounts WHERE id = $1",
        "SELECT address, address AS admin FROM accounts WHERE id = $1",
    ] {
        let looked = directory.lookup.one::<Seen>(query, &ada).await;
        assert!(looked.is_err(), "{query}: {looked:?}");
    }
}

both!(
    what_was_committed_a_moment_ago_is_seen,
    a_parameter_is_known_by_its_number,
    a_column_that_is_not_there_or_is_another_is_an_error,
);

#[tokio::test]
async fn nothing_is_written_in_place() {
    let body = async |fresh: Fresh| {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let written = directory
            .lookup
            .one::<()>(
                "DELETE FROM accounts WHERE id = $1 RETURNING id",
                &["ada".into()],
            )
            .await;
        assert!(matches!(written, Err(Error::Lookup(_))), "{written:?}");
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn what_is_closed_keeps_no_connection() {
    let body = async |fresh: Fresh| {
        let directory = &fresh.directory;
        let Lookup::Sqlite(file) = &directory.lookup else {
            panic!("another database");
        };
        let ada = [Parameter::from("ada")];
        let look = || directory.lookup.one::<Seen>(ACCOUNT, &ada);
        look().await.unwrap();
        assert_eq!(file.idle().as_ref().map(Vec::len), Some(1));
        directory.lookup.close();
        look().await.unwrap();
        assert!(file.idle().is_none());
    };
    on_sqlite(body).await.unwrap();
}

#[tokio::test]
async fn who_finds_the_file_taken_looks_again_and_keeps_no_thread_waiting() {
    let path = std::env::temp_dir().join(format!("lm-look-up-{}", std::process::id()));
    let owner = Connection::open(&path).unwrap();
    // The file has no write-ahead log, so the writer blocks readers.
    owner
        .execute_batch("CREATE TABLE t (id INTEGER); INSERT INTO t VALUES (1); BEGIN EXCLUSIVE")
        .unwrap();
    let file = File::new(path.clone(), Uncommitted::new());
    let (tells, told) = mpsc::channel();
    // Runs on the thread of the lookup, while the lookup waits.
    let frees = async {
        owner.execute_batch("COMMIT").unwrap();
        tells.send(()).unwrap();
    };
    let looks = async {
        let found = file
            .one::<()>("SELECT id FROM t WHERE id = $1", &[1_i64.into()])
            .await;
        assert!(told.try_recv().is_ok(), "it did not wait");
        found
    };
    let (found, ()) = tokio::join!(looks, frees);
    assert_eq!(found.unwrap(), Some(()));
    std::fs::remove_file(path).unwrap();
}
