//! The scripts of a mailbox: finds the script of the service, and replaces it.

use latchmail_core::caller::MailCredential;
use latchmail_sieve::script::{Contents, digest, parse};
use latchmail_sieve::{Connector, Listed, MAX_SCRIPT, Session};

use super::FilterState;
use super::result::{Error, change_error};

/// The name of the script. If another program has a script of this name, the name gets a number.
const NAME: &str = "latchmail";
/// The highest number in a name.
const MAX_NUMBER: u32 = 9;

/// The scripts of a mailbox, with a connection to the server.
pub(super) struct Stored {
    session: Session,
    listed: Vec<Listed>,
    /// The name of the script of the service. `None` if there is no such script.
    own: Option<String>,
    /// The contents of the script of the service.
    pub(super) contents: Contents,
}

impl Stored {
    /// Logs in and reads the script of the service.
    pub(super) async fn read(
        connector: &Connector,
        credential: &MailCredential,
    ) -> Result<Self, Error> {
        let mut session = connector.logged_in(credential).await?;
        if !session.missing_extensions().is_empty() {
            tracing::warn!(
                extensions = session.missing_extensions().join(" "),
                "the mail server does not support Sieve extensions of the rules"
            );
            return Err(Error::Unsupported);
        }
        let listed = session.list().await?;
        let mut stored = Self {
            session,
            listed,
            own: None,
            contents: Contents::default(),
        };
        // The active script is the first candidate.
        let mut names: Vec<String> = names().filter(|name| stored.has(name)).collect();
        names.sort_by_key(|name| stored.active() != Some(name));
        for name in names {
            let script = stored.session.get(&name).await?;
            if let Some(contents) = script.as_deref().and_then(parse) {
                stored.own = Some(name);
                stored.contents = contents;
                break;
            }
        }
        Ok(stored)
    }

    fn has(&self, name: &str) -> bool {
        self.listed.iter().any(|one| one.name == name)
    }

    /// Returns the name of the active script.
    fn active(&self) -> Option<&str> {
        let mut listed = self.listed.iter();
        listed
            .find(|one| one.is_active)
            .map(|one| one.name.as_str())
    }

    fn is_own_active(&self) -> bool {
        self.own.is_some() && self.own.as_deref() == self.active()
    }

    pub(super) fn state(&self) -> FilterState {
        let active = self.is_own_active();
        let contents = Contents {
            include: None,
            ..self.contents.clone()
        };
        let values = serde_json::to_string(&contents).unwrap_or_default();
        FilterState {
            active,
            version: digest(&format!("{active} {values}"))[..32].to_owned(),
            vacation: contents.vacation,
            rules: contents.rules,
        }
    }

    /// Includes the script that another client activated. Without such a script, a script that was
    /// included before stays included as long as it exists.
    pub(super) fn include_active(&mut self) {
        if !self.is_own_active()
            && let Some(active) = self.active()
        {
            self.contents.include = Some(active.to_owned());
        }
        let include = self.contents.include.take();
        self.contents.include = include.filter(|name| self.has(name));
    }

    /// Returns the name and the text of the included script.
    pub(super) async fn included(&mut self) -> Result<Option<(String, String)>, Error> {
        let Some(name) = self.contents.include.clone() else {
            return Ok(None);
        };
        let script = self.session.get(&name).await?;
        Ok(script.map(|script| (name, script)))
    }

    /// Stores the script, and activates it on request.
    pub(super) async fn put(&mut self, script: &str, activate: bool) -> Result<(), Error> {
        if script.len() > MAX_SCRIPT {
            return Err(Error::TooLarge);
        }
        let name = match &self.own {
            Some(name) => name.clone(),
            None => names().find(|name| !self.has(name)).ok_or_else(|| {
                let text = format!("other programs have all scripts from {NAME} to {NAME}-9");
                Error::Mailbox(crate::Error::Rejected(text))
            })?,
        };
        let put = self.session.put(&name, script).await;
        put.map_err(change_error)?;
        if activate && self.active() != Some(&name) {
            let activated = self.session.activate(&name).await;
            activated.map_err(change_error)?;
            for one in &mut self.listed {
                one.is_active = false;
            }
            self.listed.retain(|one| one.name != name);
            self.listed.push(Listed {
                name: name.clone(),
                is_active: true,
            });
        }
        self.own = Some(name);
        Ok(())
    }
}

/// Returns the names that the script can have.
fn names() -> impl Iterator<Item = String> {
    let numbered = (2..=MAX_NUMBER).map(|number| format!("{NAME}-{number}"));
    std::iter::once(NAME.to_owned()).chain(numbered)
}
