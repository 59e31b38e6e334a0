//! The demo account. It has the same address and password at every start with the same state folder.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use latchmail_accounts::auth::{Auth, Provision};
use latchmail_mailserver::write_private;
use secrecy::SecretString;
use serde::Serialize;

const EMAIL: &str = "demo@latchmail.test";
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The credentials of the demo account. They are meant to be displayed.
#[derive(Clone, Serialize)]
pub(crate) struct Demo {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// Creates the account if it does not exist.
pub(crate) async fn account(auth: &Auth, state: &Path) -> anyhow::Result<Demo> {
    let password = password(&state.join("demo-password"))?;
    let made = auth
        .create_account(EMAIL, SecretString::from(password.as_str()))
        .await
        .map_err(|failure| anyhow!("cannot make {EMAIL}: {failure}"))?;
    match made {
        Provision::Created | Provision::Exists => {}
        Provision::Differs | Provision::AddressTaken => bail!(
            "the database holds {EMAIL} already, with another password than {} holds: use the state folder it was made with, or \
             an empty database",
            state.display()
        ),
    }
    Ok(Demo {
        email: EMAIL.into(),
        password,
    })
}

/// Returns the password in `file`. Generates one if the file does not exist.
fn password(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().into()),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
        Ok(_) | Err(_) => {}
    }
    let mut random = [0_u8; 20];
    getrandom::fill(&mut random).map_err(|error| anyhow!("no randomness: {error}"))?;
    let letters = random
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    // The specification requires an upper-case letter, a lower-case letter and a digit.
    let password: String = "Demo1-".chars().chain(letters).collect();
    write_private(file, &password).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(password)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_password_is_made_once_and_is_its_owners_alone() {
        let file = std::env::temp_dir().join(format!("lm-demo-{}", std::process::id()));
        let first = password(&file).unwrap();
        let second = password(&file).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(first, second);
        assert_eq!(mode & 0o777, 0o600);
    }
}
