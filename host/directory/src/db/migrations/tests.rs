use std::collections::HashSet;

use super::*;
use crate::testing::{Fresh, both};

/// The comment before a statement of the second phase, which removes what no program from this
/// migration on uses.
const SECOND_PHASE: &str = "-- Second phase of migration ";

/// A statement, and the comments directly before it.
struct Statement {
    comments: Vec<String>,
    /// The words of the statement in upper case, separated by one space.
    text: String,
}

/// Splits a migration into statements. Each statement of a function or a trigger ends with `$$;` or
/// `END;` at the end of a line.
fn statements(sql: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    let (mut comments, mut text) = (Vec::new(), String::new());
    for line in sql.lines() {
        let (code, comment) = line
            .split_once("--")
            .map_or((line, None), |(code, comment)| (code, Some(comment)));
        if let Some(comment) = comment.filter(|_| code.trim().is_empty() && text.is_empty()) {
            comments.push(format!("--{comment}"));
        }
        let words: Vec<&str> = code.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        text = format!("{text} {}", words.join(" ").to_uppercase())
            .trim()
            .to_owned();
        let in_body = text.matches("$$").count() % 2 == 1
            || (text.starts_with("CREATE TRIGGER")
                && text.contains(" BEGIN ")
                && !text.ends_with(" END;"));
        if text.ends_with(';') && !in_body {
            let text = std::mem::take(&mut text);
            statements.push(Statement {
                comments: std::mem::take(&mut comments),
                text: text.trim_end_matches(';').to_owned(),
            });
        }
    }
    assert_eq!(text, "", "the last statement has no end");
    statements
}

/// Returns `true` if hosts with the previous version continue to work after the statement.
/// `created` contains the tables of this migration, which the previous version does not use.
fn is_addition(statement: &str, created: &mut HashSet<String>) -> bool {
    let words: Vec<&str> = statement
        .split([' ', '('])
        .filter(|word| !word.is_empty())
        .collect();
    let after = |word: &str| {
        let at = words.iter().position(|one| *one == word)?;
        words.get(at + 1).map(|name| (*name).to_owned())
    };
    let is_new = |table: Option<String>| table.is_some_and(|table| created.contains(&table));
    match words.as_slice() {
        ["CREATE", "TABLE", name, ..] if *name != "IF" => {
            created.insert((*name).to_owned());
            true
        }
        ["CREATE", "INDEX" | "FUNCTION" | "VIEW", name, ..] => *name != "IF",
        // PostgreSQL refuses to remove, rename or reorder the columns of a view. Mail servers of the
        // previous version read the same view, so only the condition of the rows can change.
        ["CREATE", "OR", "REPLACE", "VIEW", name, ..] => name.starts_with("MAILSERVER_"),
        // A trigger that runs after a change does not modify the change.
        ["CREATE", "TRIGGER", _, "AFTER", ..] => true,
        ["CREATE", "UNIQUE", "INDEX", ..] | ["CREATE", "TRIGGER", ..] => is_new(after("ON")),
        ["INSERT", "INTO", table, ..] => created.contains(*table),
        ["ALTER", "TABLE", table, ..] if created.contains(*table) => true,
        ["ALTER", "TABLE", _, "ADD", "COLUMN", definition @ ..] => {
            let has = |word| definition.contains(&word);
            let constraints = [
                "UNIQUE",
                "PRIMARY",
                "CHECK",
                "REFERENCES",
                "CONSTRAINT",
                "GENERATED",
            ];
            // A comma would begin another change.
            let one_change = !definition.iter().any(|word| {
                word.ends_with(',') || matches!(*word, "ADD" | "DROP" | "ALTER" | "RENAME")
            });
            one_change
                && !constraints.iter().any(|word| has(*word))
                && (!has("NOT") || has("DEFAULT"))
        }
        _ => false,
    }
}

/// Returns the statements that would break hosts with the previous version.
fn refused(version: i64, oldest: i64, sql: &str) -> Vec<String> {
    let mut created = HashSet::new();
    let second_phase = |statement: &Statement| {
        let comment = statement
            .comments
            .iter()
            .find_map(|comment| comment.strip_prefix(SECOND_PHASE));
        let first =
            comment.and_then(|rest| rest.split(['.', ':', ' ']).next()?.parse::<i64>().ok());
        first.is_some_and(|first| (2..version).contains(&first) && first <= oldest)
    };
    let statements = statements(sql).into_iter();
    let broken =
        statements.filter(|one| !is_addition(&one.text, &mut created) && !second_phase(one));
    broken.map(|one| one.text).collect()
}

#[test]
fn a_migration_only_adds_so_that_the_previous_version_continues_to_work() {
    for step in STEPS.iter().skip(1) {
        assert!(
            step.oldest < step.version,
            "migration {} is not compatible with the previous one",
            step.version
        );
        for sql in [step.sqlite, step.postgres] {
            let refused = refused(step.version, step.oldest, sql);
            assert!(
                refused.is_empty(),
                "migration {}: docs/architecture.md describes the two phases: {refused:#?}",
                step.version
            );
        }
    }
    assert!(
        STEPS
            .iter()
            .zip(1..)
            .all(|(step, version)| step.version == version)
    );
}

#[test]
fn statements_that_break_the_previous_version_are_refused() {
    for sql in [
        "DROP TABLE accounts;",
        "ALTER TABLE accounts DROP COLUMN address;",
        "ALTER TABLE accounts RENAME TO people;",
        "ALTER TABLE accounts RENAME COLUMN address TO name;",
        "ALTER TABLE accounts ADD COLUMN plan TEXT NOT NULL;",
        "ALTER TABLE accounts ADD COLUMN plan TEXT UNIQUE;",
        "ALTER TABLE accounts ADD COLUMN plan TEXT, DROP COLUMN address;",
        "ALTER TABLE accounts ALTER COLUMN plan SET NOT NULL;",
        "ALTER TABLE accounts ADD CONSTRAINT one CHECK (plan <> '');",
        "CREATE UNIQUE INDEX one ON accounts (plan);",
        "CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;",
        "CREATE OR REPLACE VIEW one AS SELECT 1 AS version;",
        "CREATE TRIGGER one BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION f();",
        "UPDATE accounts SET address = lower(address);",
        "DELETE FROM accounts;",
        "INSERT INTO accounts (id) VALUES ('a');",
        "-- Second phase of migration 3.\nDROP TABLE accounts;",
        "-- Second phase of migration 2.\nCREATE TABLE t (id TEXT);\nDROP TABLE accounts;",
    ] {
        assert_eq!(refused(3, 2, sql).len(), 1, "{sql}");
    }
}

#[test]
fn additions_and_announced_removals_are_accepted() {
    let sql = "-- A comment; with a semicolon.
        CREATE TABLE t (id TEXT PRIMARY KEY, -- its id;
            name TEXT NOT NULL);
        CREATE UNIQUE INDEX by_name ON t (name);
        INSERT INTO t (id, name) VALUES ('a', 'b');
        ALTER TABLE accounts ADD COLUMN plan TEXT;
        ALTER TABLE accounts ADD COLUMN quota BIGINT NOT NULL DEFAULT 0;
        CREATE INDEX accounts_by_plan ON accounts (plan);
        CREATE OR REPLACE VIEW mailserver_version AS SELECT 1 AS version;
        CREATE TRIGGER one AFTER INSERT ON accounts BEGIN
            DELETE FROM t;
        END;
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM t;
            RETURN NULL;
        END
        $$;
        -- Second phase of migration 2: no program from migration 2 on reads this column.
        ALTER TABLE accounts DROP COLUMN address;";
    assert_eq!(refused(3, 2, sql), Vec::<String>::new());
    assert_eq!(statements(sql).len(), 10);
    // A program without migration 2 still reads the column.
    assert_eq!(refused(3, 1, sql).len(), 1);
}

async fn a_program_starts_on_a_database_of_a_later_version_if_it_is_compatible(fresh: Fresh) {
    let own = newest();
    let later = [
        ("more, compatible with migration 1".to_owned(), true),
        (format!("more, compatible with migration {own}"), true),
        (
            format!("more, compatible with migration {}", own + 1),
            false,
        ),
        ("more".to_owned(), false),
    ];
    for (description, is_compatible) in later {
        const INSERT: &str = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
            VALUES ($1, $2, TRUE, $3, 0)";
        let db = fresh.directory.db();
        let checksum: &[u8] = &[0];
        let row = (own + 1, &description, checksum);
        db.execute(INSERT, row).await.unwrap();
        let opened = super::super::Db::open(&fresh.config).await;
        let schema = super::super::inspect(&fresh.config).await.unwrap().schema;
        assert_eq!(opened.is_ok(), is_compatible, "{description}");
        assert_eq!(
            schema == super::super::Schema::Current,
            is_compatible,
            "{description}"
        );
        if let Err(error) = opened {
            assert!(
                error.to_string().contains("a later version of Latchmail"),
                "{error}"
            );
        }
        fresh
            .execute("DELETE FROM _sqlx_migrations WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)")
            .await;
    }
    let stored = fresh.number("SELECT COUNT(*) FROM _sqlx_migrations WHERE description LIKE '%, compatible with migration %'");
    assert_eq!(stored.await, own);
}

both!(a_program_starts_on_a_database_of_a_later_version_if_it_is_compatible);
