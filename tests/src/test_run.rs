//! The variant of the whole test run, from environment variables: the database, the users and the
//! implementation of the aliases module.

use std::path::PathBuf;

use crate::built::examples;

/// Returns whether this run keeps directories in PostgreSQL: `./just test` runs these tests once on
/// each database.
pub(crate) fn on_postgres() -> bool {
    match std::env::var("LATCHMAIL_TEST_DATABASE").as_deref() {
        Ok("postgres") => true,
        Ok("sqlite") | Err(_) => false,
        Ok(other) => panic!("LATCHMAIL_TEST_DATABASE is {other:?}, neither sqlite nor postgres"),
    }
}

/// Returns whether the users of this run are the mail server's own, in all tests with mail:
/// `./just test-all` runs the tests of the routes once like this.
pub(crate) fn users_of_mail_server() -> bool {
    match std::env::var("LATCHMAIL_TEST_SIGN_IN").as_deref() {
        Ok("mailserver") => true,
        Ok("accounts") | Err(_) => false,
        Ok(other) => {
            panic!("LATCHMAIL_TEST_SIGN_IN is {other:?}, neither accounts nor mailserver")
        }
    }
}

/// Returns the aliases module of this run if it is not the Rust one: `./just test` runs its tests
/// with each implementation.
pub(crate) fn foreign_aliases() -> Option<PathBuf> {
    match std::env::var("LATCHMAIL_TEST_ALIASES").as_deref() {
        Ok("rust") | Err(_) => None,
        Ok("javascript") => Some(examples().join("aliases-js.wasm")),
        Ok("python") => Some(examples().join("aliases-py.wasm")),
        Ok(other) => {
            panic!("LATCHMAIL_TEST_ALIASES is {other:?}, not rust, javascript or python")
        }
    }
}
