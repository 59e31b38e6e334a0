//! The demo account, and an administrator for the operator's page. Their credentials stay the same
//! as long as the state folder exists.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use latchmail_accounts::auth::two_factor::{self, Enrolment};
use latchmail_accounts::auth::{Auth, Provision};
use latchmail_core::caller::Origin;
use latchmail_core::secrets;
use latchmail_http::App;
use latchmail_mailserver::write_private;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;

const EMAIL: &str = "demo@latchmail.test";
const ADMINISTRATOR: &str = "admin@latchmail.test";

/// The credentials of the demo account. The program prints the credentials, so the credentials are
/// not secret.
#[derive(Clone, Serialize)]
pub(crate) struct DemoAccount {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// The credentials of the administrator. The program prints the credentials, so the credentials are
/// not secret.
pub(crate) struct DevAdministrator {
    pub(crate) email: String,
    pub(crate) password: String,
    /// The secret of the second factor, in base32.
    pub(crate) secret: String,
}

impl DevAdministrator {
    /// Returns the current code of the second factor.
    pub(crate) fn code(&self, app: &App) -> anyhow::Result<String> {
        let secret = SecretString::from(self.secret.as_str());
        two_factor::code(&secret, app.clock.now())
            .map_err(|failure| anyhow!("cannot compute the two-factor code: {failure}"))
    }
}

/// Creates the demo account if it does not exist, and returns its credentials.
pub(crate) async fn ensure_account(auth: &Auth, state: &Path) -> anyhow::Result<DemoAccount> {
    Ok(DemoAccount {
        email: EMAIL.into(),
        password: create(auth, EMAIL, &state.join("demo-password")).await?,
    })
}

/// Creates the administrator with a second factor if it does not exist, and returns its
/// credentials.
pub(crate) async fn ensure_administrator(
    app: &App,
    state: &Path,
) -> anyhow::Result<DevAdministrator> {
    let password = create(&app.auth, ADMINISTRATOR, &state.join("admin-password")).await?;
    let (directory, origin, now) = (&app.directory, Origin::operator(), app.clock.now());
    let account = directory.accounts.by_address(ADMINISTRATOR).await?;
    let id = account
        .context("the administrator was deleted concurrently")?
        .id;
    directory
        .accounts
        .set_admin(&id, true, now, &origin)
        .await?;
    let file = state.join("admin-two-factor");
    let enrolled = directory.second_factors.find(&id).await?.is_some();
    let secret = if enrolled && let Some(secret) = read_secret(&file)? {
        secret
    } else {
        directory.second_factors.remove(&id, now, &origin).await?;
        let name = &app.config.service_name;
        let enrolment = Enrolment::generate(&app.auth.keys(), &id, ADMINISTRATOR, name)
            .map_err(|failure| anyhow!("cannot create a second factor: {failure}"))?;
        let (sealed, codes) = (&enrolment.sealed_secret, enrolment.recovery.hashes());
        directory
            .second_factors
            .set(&id, sealed, &codes, now, &origin)
            .await?;
        let secret = enrolment.secret.expose_secret();
        write_private(&file, &format!("{secret}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
        secret.to_owned()
    };
    Ok(DevAdministrator {
        email: ADMINISTRATOR.into(),
        password,
        secret,
    })
}

/// Creates an account with the password in `file`, if the account does not exist. Returns the
/// password.
async fn create(auth: &Auth, email: &str, file: &Path) -> anyhow::Result<String> {
    let password = read_or_generate_password(file)?;
    let provision = auth
        .registration
        .create_account(email, SecretString::from(password.as_str()))
        .await
        .map_err(|failure| anyhow!("cannot create the account {email}: {failure}"))?;
    match provision {
        Provision::Created | Provision::Exists => Ok(password),
        Provision::Differs | Provision::AddressTaken => bail!(
            "{email} already exists in the database and does not have the password in {}; use the state folder with which the \
             account was created, or an empty database",
            file.display()
        ),
    }
}

/// Returns the password in `file`. If the file does not exist, generates a password and writes it
/// to the file.
fn read_or_generate_password(file: &Path) -> anyhow::Result<String> {
    if let Some(password) = read_secret(file)? {
        return Ok(password);
    }
    // The password rules require an upper-case letter, a lower-case letter and a digit. The prefix
    // contains all three.
    let password = format!("Demo1-{}", secrets::symbols::<20>()?.as_str());
    write_private(file, &format!("{password}\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(password)
}

/// Returns the secret in `file` without its line end, or `None` if the file is empty or does not
/// exist.
fn read_secret(file: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|secret| !secret.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
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
