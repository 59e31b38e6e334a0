//! The demo account. The address and the password of the account stay the same as long as the state folder exists.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use latchmail_accounts::auth::{Auth, Provision};
use latchmail_core::secrets;
use latchmail_mailserver::write_private;
use secrecy::SecretString;
use serde::Serialize;

const EMAIL: &str = "demo@latchmail.test";

/// The credentials of the demo account. The program prints the credentials, so the credentials are not secret.
#[derive(Clone, Serialize)]
pub(crate) struct DemoAccount {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// Creates the demo account if it does not exist, and returns its credentials.
pub(crate) async fn ensure_account(auth: &Auth, state: &Path) -> anyhow::Result<DemoAccount> {
    let file = state.join("demo-password");
    let password = read_or_generate_password(&file)?;
    let provision = auth
        .create_account(EMAIL, SecretString::from(password.as_str()))
        .await
        .map_err(|failure| anyhow!("cannot create the demo account {EMAIL}: {failure}"))?;
    match provision {
        Provision::Created | Provision::Exists => {}
        Provision::Differs | Provision::AddressTaken => bail!(
            "{EMAIL} already exists in the database and does not have the password in {}; use the state folder with which the \
             account was created, or an empty database",
            file.display()
        ),
    }
    Ok(DemoAccount {
        email: EMAIL.into(),
        password,
    })
}

/// Returns the password in `file`. If the file does not exist, generates a password and writes it to the file.
fn read_or_generate_password(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().into()),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
        Ok(_) | Err(_) => {}
    }
    // The password rules require an upper-case letter, a lower-case letter and a digit. The prefix contains all three.
    let password = format!("Demo1-{}", secrets::symbols::<20>()?.as_str());
    write_private(file, &password).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(password)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_password_is_generated_once_and_only_its_owner_can_read_it() {
        let file = std::env::temp_dir().join(format!("lm-demo-{}", std::process::id()));
        let first = read_or_generate_password(&file).unwrap();
        let second = read_or_generate_password(&file).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(first, second);
        assert_eq!(mode & 0o777, 0o600);
    }
}
