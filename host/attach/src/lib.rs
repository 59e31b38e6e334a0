//! `latchmail attach` and `latchmail detach`: add the service to a running Dovecot and Postfix, and
//! remove it.
//!
//! `attach` creates its own files and extends named parameters of `main.cf`. It does not change
//! `master.cf`, system groups or existing files of Dovecot. Every change is recorded in a journal
//! before the change is made, so `attach` and `detach` can undo an interrupted attachment. `detach`
//! restores the files byte by byte.

mod dovecot;
mod journal;
mod lookup;
mod notices;
mod plan;
mod ports;
mod postfix;
pub mod programs;
mod test_users;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use latchmail_core::config::{ATTACHED_FILE, Config};
use latchmail_terminal::database_url;
use latchmail_terminal::input::confirm;
use latchmail_terminal::output::{print_line, print_lines};

use self::dovecot::Dovecot;
use self::journal::{Contents, FileChange, Journal, Location, ParameterChange, State};
use self::plan::Plan;
pub use self::postfix::AliasFile;
use self::postfix::Postfix;

/// The configurations of the mail servers.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// Configuration file of Dovecot.
    #[arg(long, value_name = "FILE", default_value = "/etc/dovecot/dovecot.conf")]
    dovecot_config: PathBuf,
    /// Configuration folder of Postfix.
    #[arg(long, value_name = "DIR", default_value = "/etc/postfix")]
    postfix_config: PathBuf,
}

/// Arguments of `latchmail attach`.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// Only print the plan.
    #[arg(long)]
    plan: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Existing user with whose mailbox the attachment is tested. The user's password is read from
    /// standard input, as one line. Without this option, users that the mail server lists are
    /// tried, and no existing password is tested.
    #[arg(long, value_name = "ADDRESS")]
    test_user: Option<String>,
    /// With `PostgreSQL`: the database for the mail servers, with a log-in that is a member of the
    /// role `latchmail_mailserver`. The URL must not contain a password, because all users can see
    /// arguments.
    #[arg(
        long,
        value_name = "postgres://…",
        conflicts_with = "mail_database_file"
    )]
    mail_database: Option<String>,
    /// File with the URL for `--mail-database`, which can contain a password. `-` reads the URL
    /// from standard input. Other users must not be able to read the file.
    #[arg(long, value_name = "FILE")]
    mail_database_file: Option<PathBuf>,
}

impl AttachArgs {
    /// Returns the URL of the database for the mail servers.
    fn mail_database(&self) -> anyhow::Result<Option<String>> {
        let (url, file) = (&self.mail_database, &self.mail_database_file);
        if self.test_user.is_some() && file.as_deref() == Some(Path::new("-")) {
            bail!(
                "--test-user reads the user's password from standard input, so --mail-database-file must name a file"
            );
        }
        database_url::read("--mail-database", url.as_deref(), file.as_deref())
    }
}

/// Arguments of `latchmail detach`.
#[derive(Debug, clap::Args)]
pub struct DetachArgs {
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
}

/// Attaches the service to a running mail server. `file` is the configuration file of the service.
/// Returns the files with the existing aliases of users, which the service must import. Returns
/// `None` if nothing was changed.
///
/// # Errors
/// Returns an error if the mail server cannot be attached. All changes are undone in that case,
/// unless the error says otherwise.
pub async fn attach(file: &Path, args: &AttachArgs) -> anyhow::Result<Option<Vec<AliasFile>>> {
    require_root()?;
    let location = Location::beside(file)?;
    match location.read()? {
        Some(journal) if journal.state == State::Attached => {
            print_line(
                "Latchmail is already attached to this mail server. Nothing was changed. `latchmail detach` removes it.",
            )?;
            return Ok(None);
        }
        Some(journal) => {
            print_line("An earlier attachment was interrupted. Its changes are undone first.")?;
            undo(&location, &journal)?;
        }
        None => location.remove_scratch()?,
    }
    let config = Config::load(Some(file))?;
    let plan = Box::pin(Plan::build(&config, file, &location, args)).await?;
    print_lines(plan.lines())?;
    if args.plan {
        return Ok(None);
    }
    if !args.yes && !confirm("Make these changes?")? {
        bail!("nothing was changed");
    }
    if let Some(user) = plan.users.first() {
        verify::existing(&plan.config, &plan.dovecot, user).await?;
    }

    let directory = lookup::open_directory(&config).await?;
    let mut journal = journal(&plan, &location, args)?;
    location.write(&journal)?;
    let done = async {
        let receiver = match &plan.notices {
            Some(notices) => Some(notices.receive().await?),
            None => None,
        };
        apply(&plan, &journal)?;
        Box::pin(verify::attached_with_any(
            &plan.config,
            &directory,
            &plan.users,
            &args.servers.postfix_config.display().to_string(),
        ))
        .await?;
        let Some(mut receiver) = receiver else {
            return Ok(());
        };
        if receiver.has_delivery().await {
            return print_line("verified: Dovecot sends notices about deliveries");
        }
        remove_notices(&plan, &mut journal, &location)
    };
    let done = done.await;
    directory.close().await;
    if let Err(error) = done {
        print_line("A step failed. All changes are undone.")?;
        let failed = format!("{error:#}");
        undo(&location, &journal).with_context(|| {
            format!("the attachment failed ({failed}), and undoing it failed too")
        })?;
        return Err(error);
    }
    journal.state = State::Attached;
    location.write(&journal)?;
    let domains = &plan.config.registration.domains;
    plan.postfix.alias_files(domains).map(Some)
}

/// Restores the mail server's state before the attachment. `file` is the configuration file of the
/// service.
///
/// # Errors
/// Returns an error if a file cannot be restored. The command can be repeated.
pub fn detach(file: &Path, args: &DetachArgs) -> anyhow::Result<()> {
    require_root()?;
    let location = Location::beside(file)?;
    let Some(mut journal) = location.read()? else {
        location.remove_scratch()?;
        return print_line("Latchmail is not attached.");
    };
    for change in &journal.files {
        let action = if change.before.is_some() {
            "restore"
        } else {
            "remove"
        };
        print_line(&format!("  {action} {}", change.path.display()))?;
    }
    print_line(
        "App passwords of Latchmail stop working, and users cannot sign in to Latchmail any more. Mail is not changed.",
    )?;
    if !args.yes && !confirm("Detach Latchmail?")? {
        bail!("nothing was changed");
    }
    journal.state = State::Changing;
    location.write(&journal)?;
    undo(&location, &journal)?;
    print_line("Latchmail is detached. Stop or reconfigure the service.")
}

/// Determines all file changes and their undo data. Changes nothing.
fn journal(plan: &Plan, location: &Location, args: &AttachArgs) -> anyhow::Result<Journal> {
    let (dovecot, postfix) = (&plan.dovecot, &plan.postfix);
    let before = [dovecot.dump()?, postfix.dump()?, postfix.services()?];
    let mut journal = Journal::new(
        std::path::absolute(&args.servers.dovecot_config)?,
        std::path::absolute(&args.servers.postfix_config)?,
        before,
    );
    journal.files.clone_from(&plan.files);
    for change in &journal.files {
        if change.path.exists() {
            bail!(
                "{} exists, but Latchmail is not attached; remove the file",
                change.path.display()
            );
        }
    }
    let path = postfix.main_cf();
    let main_cf =
        Contents::read(&path)?.with_context(|| format!("{} is missing", path.display()))?;
    let scratch = location.scratch()?;
    let [during, after] = postfix.edited_main_cf(main_cf.bytes(), &plan.parameters, &scratch)?;
    location.remove_scratch()?;
    journal.files.push(FileChange {
        path,
        during: Some(main_cf.with_bytes(during)),
        after: main_cf.with_bytes(after),
        before: Some(main_cf),
    });
    for parameter in &plan.parameters {
        let mut keys = journal.before[1]
            .lines()
            .filter_map(|line| line.split('=').next());
        journal.parameters.push(ParameterChange {
            name: parameter.name.to_owned(),
            was_set: keys.any(|key| key.trim() == parameter.name),
            added: parameter.added.clone(),
        });
    }
    journal.owners = lookup::owner_changes(&plan.lookup, postfix.group()?)?;
    Ok(journal)
}

/// Makes the changes, checks the new configuration and reloads the servers.
fn apply(plan: &Plan, journal: &Journal) -> anyhow::Result<()> {
    let (dovecot, postfix) = (&plan.dovecot, &plan.postfix);
    for change in &journal.owners {
        change.apply()?;
    }
    let (in_two_steps, in_one_step): (Vec<_>, Vec<_>) = journal
        .files
        .iter()
        .partition(|change| change.during.is_some());
    for change in in_one_step {
        change.apply()?;
    }
    for change in &in_two_steps {
        change.begin()?;
    }
    postfix.check()?;
    postfix.reload()?;
    postfix.wait_for_tables(&plan.parameters)?;
    // `is_passdb_first` also fails if the new configuration of Dovecot is invalid.
    if !dovecot.is_passdb_first()? {
        print_line(
            "warning: another passdb precedes Latchmail's passdb, so log-ins with app passwords can be slow; include conf.d/*.conf first",
        )?;
    }
    dovecot.reload()?;
    for change in &in_two_steps {
        change.apply()?;
    }
    postfix.check()?;
    postfix.reload()
}

/// Removes the settings for notices, because Dovecot sends no notices about deliveries. With the
/// settings, the service would not open connections on which Dovecot reports changes.
fn remove_notices(plan: &Plan, journal: &mut Journal, location: &Location) -> anyhow::Result<()> {
    print_line(
        "note: Dovecot sent no notice about a delivery, for example because Postfix delivers without Dovecot. The service opens an IMAP connection for each mailbox for which a client waits.",
    )?;
    let files = plan.notices.iter().flat_map(|notices| &notices.files);
    for removed in files {
        removed.remove()?;
        journal.files.retain(|change| change.path != removed.path);
    }
    let attached = location.file(ATTACHED_FILE);
    for change in &mut journal.files {
        if change.path == attached {
            change.rewrite(plan.settings.clone())?;
        }
    }
    plan.dovecot.reload()
}

/// Restores all files, reloads the servers and removes the journal. Can be repeated after an
/// interruption.
fn undo(location: &Location, journal: &Journal) -> anyhow::Result<()> {
    let postfix = Postfix::at(&journal.postfix)?;
    for change in journal.files.iter().rev() {
        change.clean()?;
        match &change.before {
            None => change.remove()?,
            Some(before) => restore(&postfix, journal, location, change, before)?,
        }
    }
    for change in &journal.owners {
        change.undo()?;
    }
    reload(journal, &postfix)?;
    location.remove_scratch()?;
    location.remove()
}

/// Restores `main.cf`. If the file was changed after the attachment, only removes Latchmail's
/// tables from the file.
fn restore(
    postfix: &Postfix,
    journal: &Journal,
    location: &Location,
    change: &FileChange,
    before: &Contents,
) -> anyhow::Result<()> {
    let current = Contents::read(&change.path)?;
    match current {
        Some(current) if current == *before => Ok(()),
        Some(current) if !change.has_made(&current) => {
            print_line(&format!(
                "{} was changed after the attachment. Only Latchmail's tables are removed from it.",
                change.path.display()
            ))?;
            let scratch = location.scratch()?;
            let cleaned =
                postfix.cleaned_main_cf(current.bytes(), &journal.parameters, &scratch)?;
            current.with_bytes(cleaned).write(&change.path)
        }
        _ => before.write(&change.path),
    }
}

/// Reloads the servers that are running, and reports settings that differ from the settings before
/// the attachment.
fn reload(journal: &Journal, postfix: &Postfix) -> anyhow::Result<()> {
    let dovecot = Dovecot::at(&journal.dovecot)?;
    if dovecot.is_running() {
        dovecot.reload()?;
    }
    if postfix.is_running() {
        postfix.reload()?;
    }
    let now = [dovecot.dump()?, postfix.dump()?, postfix.services()?];
    for ((name, before), now) in ["doveconf -n", "postconf -n", "postconf -M"]
        .iter()
        .zip(&journal.before)
        .zip(&now)
    {
        if before != now {
            print_line(&format!(
                "The output of `{name}` differs from the one before the attachment, because the configuration was changed since then."
            ))?;
        }
    }
    Ok(())
}

fn require_root() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("this command changes the configuration of the mail servers, so root must run it");
    }
    Ok(())
}
