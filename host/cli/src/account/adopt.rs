//! `latchmail account adopt`: creates accounts for users of the mail server before their first
//! sign-in.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use latchmail_attach::programs;
use latchmail_directory::accounts::imports::{AdoptedUser, Adoption};
use zeroize::Zeroizing;

use crate::adoption::PlatformDomains;
use crate::context::CliContext;
use crate::import::{self, Report, Status};
use crate::mail_server_users::{Lookup, MailServerUsers};

/// Arguments of `latchmail account adopt`.
#[derive(Debug, clap::Args)]
pub struct Adopt {
    /// File with one log-in name or address per line, or a passwd-file. Only the text before the
    /// first colon of a line is used. `-` is standard input.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    file: Option<PathBuf>,
    /// Adopt all users that `doveadm user '*'` lists.
    #[arg(long)]
    all: bool,
    /// Configuration file of Dovecot, for `--all`.
    #[arg(long, value_name = "FILE", default_value = "/etc/dovecot/dovecot.conf")]
    dovecot_config: PathBuf,
    /// Print one JSON object for each user.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a user was not adopted, or if the command fails. A failed command can be
/// repeated.
pub(super) async fn run(context: &CliContext, arguments: &Adopt) -> anyhow::Result<()> {
    let names = match &arguments.file {
        // The file can contain hashes of passwords.
        Some(file) => log_in_names(&Zeroizing::new(import::read(file)?)),
        None => listed_names(&arguments.dovecot_config)?,
    };
    let platform = context.platform_domains().await?;
    let mut users = MailServerUsers::new(&context.config.sign_in);
    let mut adopted: BTreeMap<String, AdoptedUser> = BTreeMap::new();
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let user = match known_name(context, &mut users, &name, &platform).await {
            Ok(canonical) => context.adopted_user(&canonical, &platform)?,
            Err(reason) => Err(reason),
        };
        let address = user.map(|user| {
            let address = user.account.address.clone();
            adopted.entry(address.clone()).or_insert(user);
            address
        });
        entries.push((name, address));
    }

    let adopted: Vec<AdoptedUser> = adopted.into_values().collect();
    let adoptions = context
        .directory
        .accounts
        .adopt_users(&adopted, &context.origin);
    let adoptions = adoptions
        .await
        .context("the command stopped, and can be repeated")?;
    let addresses = adopted.into_iter().map(|user| user.account.address);
    let mut adoptions: HashMap<String, Adoption> = addresses.zip(adoptions).collect();
    let mut report = Report::default();
    for (name, address) in entries {
        let status = match address {
            Err(reason) => Status::failed(reason),
            // A second name of the same user changes nothing.
            Ok(address) => match adoptions.get_mut(&address) {
                Some(Adoption::AddressTaken) => Status::failed(format!(
                    "{address} is an alias or reserved; `latchmail domain free` releases a reserved address"
                )),
                Some(adoption) => match std::mem::replace(adoption, Adoption::Unchanged) {
                    Adoption::Created | Adoption::LoginNameSet => Status::Imported,
                    Adoption::Unchanged | Adoption::AddressTaken => Status::Unchanged,
                },
                None => Status::Unchanged,
            },
        };
        report.add(name, status);
    }
    report.print(arguments.json)
}

/// Returns the canonical log-in name of a user, or the reason why the user cannot be adopted. If
/// the lookup has the result [`Lookup::Unknown`], returns `name` unchanged.
async fn known_name(
    context: &CliContext,
    users: &mut MailServerUsers<'_>,
    name: &str,
    platform: &PlatformDomains,
) -> Result<String, String> {
    let address = context.mail_server_address(name, platform)?;
    let found = match users.find_name(name, &address).await {
        Lookup::NotFound => users.find(&address).await,
        found => found,
    };
    match found {
        Lookup::User(canonical) => Ok(canonical),
        Lookup::Unknown => Ok(name.to_owned()),
        Lookup::NotFound => Err("is not a user of the mail server".into()),
        Lookup::Failed(reason) => Err(format!("the mail server cannot look up the user: {reason}")),
    }
}

/// Returns the names in a list or in a passwd-file, without comments and empty lines.
fn log_in_names(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_ascii);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    names
        .map(|line| {
            line.split(':')
                .next()
                .unwrap_or_default()
                .trim_ascii()
                .to_owned()
        })
        .collect()
}

/// Returns the users that Dovecot lists.
fn listed_names(config: &Path) -> anyhow::Result<Vec<String>> {
    let config = config
        .to_str()
        .context("the path of Dovecot's configuration is not valid UTF-8")?;
    let listed = programs::listed_users(config)
        .context("Dovecot cannot list its users; name them in a file instead")?;
    Ok(log_in_names(&listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_a_line_is_the_log_in_name() {
        let text = "# users\n\nalice\n bob@example.org \r\ncarol:{PLAIN}a:b::::::\n:x\n";
        assert_eq!(
            log_in_names(text),
            ["alice", "bob@example.org", "carol", ""]
        );
    }
}
