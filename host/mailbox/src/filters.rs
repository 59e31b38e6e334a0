//! The vacation response and the rules of a mailbox, in a Sieve script at the mail server.
//!
//! The script of the service includes the script that was active before. This module never changes
//! or deletes another script. The script itself is the only copy of the vacation response and the
//! rules ([`latchmail_sieve::script`]).

pub mod forward_addresses;
mod result;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::{Problem, StartError};
use latchmail_core::permissions::Right;
use latchmail_directory::Directory;
use latchmail_imap::list::Role;
use latchmail_shape::filters::{Rule, Vacation, check_rules, check_vacation};
use latchmail_sieve::Connector;
use latchmail_sieve::script::{Contents, Names, has_vacation, write};

use self::forward_addresses::folded;
use self::stored::Stored;
use crate::access::Access;
use crate::folders::path::normalize_path;
use crate::folders::roles::Folder;
use crate::mail::Mail;
use crate::outbox::Outbox;

pub use self::result::Error;

/// Maximum number of addresses that the vacation response knows.
const MAX_ADDRESSES: usize = 1000;

/// The text for a member who wants to change the vacation response or the rules.
const OWNER_ONLY: &str =
    "Only the owner of a mailbox can change its vacation response and its rules";

/// The vacation response and the rules of a mailbox.
#[derive(Clone, Debug)]
pub struct FilterState {
    /// The vacation response.
    pub vacation: Vacation,
    /// The rules, with the current paths of renamed folders.
    pub rules: Vec<Rule>,
    /// Whether the script of the service is the active script.
    pub active: bool,
    /// The version, which changes with every other field.
    pub version: String,
}

/// A change of the script.
enum Change {
    Vacation(Vacation),
    Rules(Vec<Rule>),
    /// The paths of renamed folders.
    Paths,
    /// Disables the rules that forward mail to this address.
    NoForward(String),
}

/// A folder with its id.
type ListedFolder = (Folder, Arc<str>);

/// The vacation responses and the rules of all mailboxes.
#[derive(Debug)]
pub struct Filters {
    /// `None` if no ManageSieve server is configured.
    connector: Option<Connector>,
    directory: Directory,
    mail: Arc<Mail>,
    outbox: Arc<Outbox>,
    clock: Clock,
    /// One lock per account, which serializes the changes of this host.
    locks: AccountPermits,
    tasks: DetachedTasks,
}

impl Filters {
    /// Creates the service. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address of the `ManageSieve` server is invalid.
    pub fn new(
        sieve: &config::Sieve,
        imap: &config::Imap,
        directory: Directory,
        mail: Arc<Mail>,
        outbox: Arc<Outbox>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        Ok(Self {
            connector: Connector::new(sieve, imap)?,
            directory,
            mail,
            outbox,
            clock,
            locks: AccountPermits::new(1),
            tasks: DetachedTasks::default(),
        })
    }

    /// Returns the vacation response and the rules. A member needs the right `mail:read` on the
    /// whole mailbox.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the mail server does not support scripts. Returns another
    /// [`Error`] if the operation fails.
    pub async fn get(&self, access: &Access) -> Result<FilterState, Error> {
        if let Some(member) = &access.member
            && !member.grants.over_every_folder().hold(Right::MailRead)
        {
            return Err(crate::Error::Denied(Right::MailRead).into());
        }
        let mut stored = self.stored(access).await?;
        if !stored.contents.folder_ids.is_empty() {
            let folders = self.mail.listing.folders(access).await?;
            update_paths(&mut stored.contents, &folders);
        }
        Ok(stored.state())
    }

    /// Replaces the vacation response and activates the script. With `if_version`, makes the change
    /// only if the state has this version.
    ///
    /// # Errors
    /// Returns an [`Error`] if the response is invalid or the operation fails.
    pub async fn set_vacation(
        self: &Arc<Self>,
        access: &Access,
        vacation: Vacation,
        if_version: Option<&str>,
    ) -> Result<FilterState, Error> {
        check_owner(access, OWNER_ONLY)?;
        check_vacation(&vacation)?;
        self.change(access, Change::Vacation(vacation), if_version)
            .await
    }

    /// Replaces the rules and activates the script. With `if_version`, makes the change only if the
    /// state has this version.
    ///
    /// # Errors
    /// Returns an [`Error`] if a rule is invalid or the operation fails.
    pub async fn set_rules(
        self: &Arc<Self>,
        access: &Access,
        rules: Vec<Rule>,
        if_version: Option<&str>,
    ) -> Result<FilterState, Error> {
        check_owner(access, OWNER_ONLY)?;
        check_rules(&rules)?;
        self.change(access, Change::Rules(rules), if_version).await
    }

    /// Writes the new paths of renamed folders into the rules. Does not activate the script. A
    /// failure is logged, because the folder has been renamed already: the rule then files mail in
    /// the inbox until the rules are replaced.
    pub async fn follow_renames(self: &Arc<Self>, access: &Access) {
        if self.connector.is_none() {
            return;
        }
        match self.change(access, Change::Paths, None).await {
            Ok(_) | Err(Error::Unsupported) => {}
            Err(error) => tracing::warn!("failed to rename the folder in the rules: {error}"),
        }
    }

    /// Makes a change on its own task. The change completes even if the caller is dropped.
    async fn change(
        self: &Arc<Self>,
        access: &Access,
        change: Change,
        if_version: Option<&str>,
    ) -> Result<FilterState, Error> {
        let (filters, access) = (Arc::clone(self), access.clone());
        let if_version = if_version.map(ToOwned::to_owned);
        self.run(async move { filters.make(&access, change, if_version.as_deref()).await })
            .await
    }

    /// Runs a change on its own task.
    async fn run<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let ended = self.tasks.spawn(change).await;
        ended.unwrap_or_else(|error| {
            let reason = format!("a change of the rules ended early: {error}");
            Err(crate::Error::Unknown(reason).into())
        })
    }

    async fn make(
        &self,
        access: &Access,
        change: Change,
        if_version: Option<&str>,
    ) -> Result<FilterState, Error> {
        let (access, _lock) = &self
            .mail
            .context
            .connections
            .lock(&self.locks, access)
            .await?;
        let mut stored = self.stored(access).await?;
        let activates = matches!(change, Change::Vacation(_) | Change::Rules(_));
        let is_needed = match &change {
            Change::Vacation(_) | Change::Rules(_) => true,
            Change::Paths => !stored.contents.folder_ids.is_empty(),
            Change::NoForward(address) => disable_forwards(&mut stored.contents, address),
        };
        if !is_needed {
            return Ok(stored.state());
        }
        let folders = self.mail.listing.folders(access).await?;
        let has_new_paths = update_paths(&mut stored.contents, &folders);
        if if_version.is_some_and(|version| version != stored.state().version) {
            return Err(Error::VersionMismatch);
        }
        match change {
            Change::Vacation(vacation) => stored.contents.vacation = vacation,
            Change::Rules(rules) => {
                let rules = self.resolve(&access.account, rules, &folders).await?;
                (stored.contents.rules, stored.contents.folder_ids) = rules;
            }
            Change::Paths if !has_new_paths => return Ok(stored.state()),
            Change::Paths | Change::NoForward(_) => {}
        }
        if activates {
            stored.include_active();
            check_include(&mut stored).await?;
        }
        let addresses = self.addresses(&access.account).await?;
        let trash = folders
            .iter()
            .find(|(folder, _)| folder.role == Some(Role::Trash));
        let script = write(
            &stored.contents,
            Names {
                addresses: &addresses,
                trash: trash.map(|(folder, _)| folder.path.as_str()),
            },
        );
        stored.put(&script, activates).await?;
        Ok(stored.state())
    }

    async fn stored(&self, access: &Access) -> Result<Stored, Error> {
        let connector = self.connector.as_ref().ok_or(Error::Unsupported)?;
        Stored::read(connector, &access.credential).await
    }

    /// Checks the folders and the addresses of new rules. Returns the rules in the form in which
    /// they are stored, and the ids of their folders.
    async fn resolve(
        &self,
        account: &str,
        mut rules: Vec<Rule>,
        folders: &[ListedFolder],
    ) -> Result<(Vec<Rule>, BTreeMap<String, String>), Error> {
        let mut ids = BTreeMap::new();
        for (index, rule) in rules.iter_mut().enumerate() {
            for (position, action) in rule.actions.iter_mut().enumerate() {
                let value = action.value.as_deref().unwrap_or_default();
                match action.kind.as_str() {
                    "move" | "copy" => {
                        let path = normalize_path(value);
                        let found = folders.iter().find(|(folder, _)| folder.path == path);
                        let (folder, id) = found.ok_or_else(|| {
                            let text = format!(
                                "rules[{index}].actions[{position}].folder is not an existing folder"
                            );
                            Error::Invalid(Problem::new(codes::INVALID_RULES, text))
                        })?;
                        ids.insert(folder.path.clone(), id.to_string());
                        action.value = Some(folder.path.clone());
                    }
                    "forward" => {
                        let address = folded(value).ok_or_else(|| not_allowed(value))?;
                        if rule.enabled && !self.can_forward(account, &address).await? {
                            return Err(not_allowed(value));
                        }
                        action.value = Some(address);
                    }
                    "trash" => {
                        let mut folders = folders.iter();
                        if !folders.any(|(folder, _)| folder.role == Some(Role::Trash)) {
                            return Err(crate::Error::NoTrashFolder.into());
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok((rules, ids))
    }

    /// Returns `true` if the rules of an account can forward mail to an address: to an address of
    /// this service, or to a confirmed one. The owner of any other address may not want the mail.
    async fn can_forward(&self, account: &str, address: &str) -> Result<bool, Error> {
        let directory = &self.directory;
        let found = async {
            let now = self.clock.now();
            Ok::<_, latchmail_directory::Error>(
                directory.aliases.is_deliverable(address, now).await?
                    || directory
                        .forward_addresses
                        .is_confirmed(account, address)
                        .await?,
            )
        };
        Ok(found.await.map_err(crate::Error::from)?)
    }

    /// Returns the address of an account and its active aliases.
    async fn addresses(&self, account: &str) -> Result<Vec<String>, Error> {
        let found = async {
            let own = self.directory.accounts.active(account).await?;
            let aliases = self.directory.aliases.list(account).await?;
            Ok::<_, latchmail_directory::Error>((own, aliases))
        };
        let (own, aliases) = found.await.map_err(crate::Error::from)?;
        let now = self.clock.now();
        let aliases = aliases.into_iter();
        let aliases = aliases
            .filter(|alias| alias.active && alias.expires_at.is_none_or(|at| at > now))
            .map(|alias| alias.address);
        let own = own.map(|account| account.address);
        Ok(own.into_iter().chain(aliases).take(MAX_ADDRESSES).collect())
    }
}

/// Returns an error for a member. Rules and responses affect the whole mailbox, and speak for its
/// owner.
fn check_owner(access: &Access, text: &'static str) -> Result<(), Error> {
    match &access.member {
        None => Ok(()),
        Some(_) => Err(Error::OwnerOnly(text)),
    }
}

/// Returns the error for an address to which mail cannot be forwarded.
fn not_allowed(address: &str) -> Error {
    let shown: String = address.chars().take(254).collect();
    Error::Invalid(Problem::new(
        codes::FORWARD_ADDRESS_NOT_ALLOWED,
        format!(
            "Mail can only be forwarded to an address of this service or to a confirmed address, and {shown} is neither"
        ),
    ))
}

/// Disables the rules that forward mail to an address. Returns whether a rule has changed.
fn disable_forwards(contents: &mut Contents, address: &str) -> bool {
    let mut changed = false;
    for rule in contents.rules.iter_mut().filter(|rule| rule.enabled) {
        let mut actions = rule.actions.iter();
        if actions.any(|one| one.kind == "forward" && one.value.as_deref() == Some(address)) {
            rule.enabled = false;
            changed = true;
        }
    }
    changed
}

/// Checks that a message does not cause two vacation responses.
async fn check_include(stored: &mut Stored) -> Result<(), Error> {
    if !stored.contents.vacation.enabled {
        return Ok(());
    }
    match stored.included().await? {
        Some((name, script)) if has_vacation(&script) => {
            let name: String = name.chars().take(100).collect();
            Err(Error::Conflict(Problem::new(
                codes::VACATION_EXISTS,
                format!(
                    "The script \"{name}\" of another mail client has a vacation response; disable it there first"
                ),
            )))
        }
        _ => Ok(()),
    }
}

/// Replaces the old paths of renamed folders. Returns whether a path has changed.
fn update_paths(contents: &mut Contents, folders: &[ListedFolder]) -> bool {
    let mut renamed = BTreeMap::new();
    for (path, id) in &contents.folder_ids {
        let found = folders.iter().find(|(_, known)| **known == **id);
        if let Some((folder, _)) = found.filter(|(folder, _)| folder.path != *path) {
            renamed.insert(path.clone(), folder.path.clone());
        }
    }
    if renamed.is_empty() {
        return false;
    }
    let rules = contents.rules.iter_mut();
    for action in rules.flat_map(|rule| &mut rule.actions) {
        if matches!(action.kind.as_str(), "move" | "copy")
            && let Some(path) = &mut action.value
            && let Some(new) = renamed.get(path)
        {
            path.clone_from(new);
        }
    }
    let ids = std::mem::take(&mut contents.folder_ids).into_iter();
    let ids = ids.map(|(path, id)| (renamed.remove(&path).unwrap_or(path), id));
    contents.folder_ids = ids.collect();
    true
}
