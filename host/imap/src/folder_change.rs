//! Creates, renames and deletes folders (RFC 3501, sections 6.3.3 to 6.3.9). The commands contain
//! the server's names of folders, in modified UTF-7.
//!
//! Each command for a folder first closes the open folder, because a server can refuse to rename or
//! delete a folder that is open.

use std::collections::BTreeSet;

use imap_proto::Status;

use super::listed::Collected;
use super::session::Session;
use super::wire::Outcome;
use super::{Error, quoted};

/// The result of a command that changes a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderOutcome {
    /// The server has changed the folder.
    Changed,
    /// A folder with the new name exists.
    Exists,
    /// The folder does not exist.
    Missing,
    /// The server cannot have a folder with the new name.
    InvalidName,
}

impl Session {
    /// Creates a folder. The server also creates missing parents of the folder, but other clients
    /// cannot always open these parents.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn create_folder(&mut self, name: &str) -> Result<FolderOutcome, Error> {
        folder_outcome(run_folder_command(self, &["CREATE", name]).await?)
    }

    /// Renames a folder and its subfolders. The subscriptions do not change.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn rename_folder(&mut self, from: &str, to: &str) -> Result<FolderOutcome, Error> {
        folder_outcome(run_folder_command(self, &["RENAME", from, to]).await?)
    }

    /// Deletes a folder with all of its messages. The subscription does not change.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn delete_folder(&mut self, name: &str) -> Result<FolderOutcome, Error> {
        folder_outcome(run_folder_command(self, &["DELETE", name]).await?)
    }

    /// Runs commands for folders in one write, and ignores a NO. `commands` contains `SUBSCRIBE`,
    /// `UNSUBSCRIBE` or `CREATE`, and the name of a folder. Returns the number of commands that the
    /// server refused.
    ///
    /// # Errors
    /// Returns an [`Error`] if a name is not printable ASCII, or if the connection fails.
    pub async fn try_folder_commands(
        &mut self,
        commands: &[(&'static str, String)],
    ) -> Result<usize, Error> {
        let commands: Result<Vec<String>, Error> = commands
            .iter()
            .map(|(command, name)| folder_command(&[command, name]))
            .collect();
        let outcomes = self.connection.run(&commands?, &mut |_, _| Ok(())).await?;
        let refused = outcomes.iter().filter(|o| o.status != Status::Ok);
        Ok(refused.count())
    }

    /// Returns the server's names of the folders to which the user has subscribed.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn subscribed_folders(&mut self) -> Result<BTreeSet<String>, Error> {
        let mut collected = Collected::default();
        let command = [r#"LSUB "" "*""#.to_owned()];
        let outcomes = self
            .connection
            .run(&command, &mut |reply, frame| {
                collected.add(reply, frame);
                Ok(())
            })
            .await?;
        for outcome in outcomes {
            outcome.ok()?;
        }
        // A folder with `\Noselect` in the response to LSUB has only subscribed subfolders (RFC
        // 3501, section 6.3.9).
        let folders = collected.into_folders()?.into_iter();
        let subscribed = folders.filter(|folder| folder.selectable);
        Ok(subscribed.map(|folder| folder.name).collect())
    }
}

/// Returns a command with folder names as quoted strings.
fn folder_command(words: &[&str]) -> Result<String, Error> {
    let Some((command, names)) = words.split_first() else {
        return Err(Error::Protocol("empty command".into()));
    };
    let mut line = (*command).to_owned();
    for name in names {
        let name = quoted(name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
        line.push(' ');
        line.push_str(&name);
    }
    Ok(line)
}

/// Interprets the response codes of RFC 5530.
fn folder_outcome(outcome: Outcome) -> Result<FolderOutcome, Error> {
    if outcome.status == Status::No {
        for (code, result) in [
            ("ALREADYEXISTS", FolderOutcome::Exists),
            ("NONEXISTENT", FolderOutcome::Missing),
            ("CANNOT", FolderOutcome::InvalidName),
        ] {
            if outcome.has_code(code) {
                return Ok(result);
            }
        }
    }
    outcome.ok()?;
    Ok(FolderOutcome::Changed)
}

/// Runs a command for a folder. `command` is the name of the command with its folder names.
async fn run_folder_command(session: &mut Session, command: &[&str]) -> Result<Outcome, Error> {
    let mut commands = session.closing();
    commands.push(folder_command(command)?);
    let outcomes = session
        .connection
        .run(&commands, &mut |_, _| Ok(()))
        .await?;
    let outcome = outcomes.into_iter().next_back();
    outcome.ok_or_else(|| Error::Protocol("no response to a folder command".into()))
}

#[cfg(test)]
mod tests {
    use super::FolderOutcome::{Changed, Exists, InvalidName, Missing};
    use crate::Error;
    use crate::fuzzing::{block_on, session};

    #[test]
    fn response_codes_distinguish_the_reasons_of_a_refusal() {
        for (reply, expected) in [
            ("! OK done\r\n", Changed),
            ("! NO [ALREADYEXISTS] Mailbox already exists\r\n", Exists),
            ("! NO [NONEXISTENT] Mailbox doesn't exist\r\n", Missing),
            ("! NO [CANNOT] Invalid mailbox name\r\n", InvalidName),
        ] {
            let mut session = session(&[reply]);
            assert_eq!(block_on(session.create_folder("a")).unwrap(), expected);
            assert!(session.is_idle());
        }
    }

    #[test]
    fn a_full_mailbox_is_an_error_of_its_own_and_the_session_stays_usable() {
        let mut session = session(&["! NO [OVERQUOTA] Quota exceeded\r\n", "! OK done\r\n"]);
        let full = block_on(session.create_folder("a"));
        assert!(matches!(full, Err(Error::OverQuota)), "{full:?}");
        assert_eq!(block_on(session.create_folder("b")).unwrap(), Changed);
    }

    #[test]
    fn a_folder_without_a_subscription_of_its_own_is_not_subscribed() {
        let replies = "* LSUB () \"/\" a/b\r\n* LSUB (\\Noselect) \"/\" a\r\n";
        let subscribed = block_on(session(&[replies]).subscribed_folders()).unwrap();
        assert_eq!(subscribed.into_iter().collect::<Vec<_>>(), ["a/b"]);
    }
}
