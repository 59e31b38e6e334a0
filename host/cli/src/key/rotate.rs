//! `latchmail key rotate`. Each step can be repeated, so running the command again completes a
//! rotation that was interrupted:
//!
//! 1. Add a new key to the key file, and record the key as pending. A key in the file that the
//!    database does not know is used instead of another new key.
//! 2. Wait until all running hosts have the key.
//! 3. Make the key the current key, and wait until all running hosts use it.
//! 4. Move the key to the top of the key file.

use std::time::Duration;

use anyhow::bail;
use latchmail_core::key_file::KeyFile;
use latchmail_directory::hosts::Host;
use latchmail_directory::keys::service_keys::{Activation, KeyState, ServiceKey};
use latchmail_terminal::output::{escape, print_line};
use tokio::time::{Instant, sleep};

use super::{FileKey, IN_USE, NOTICE_TIMEOUT, POLL_INTERVAL, has, in_state, names, names_with};
use crate::context::CliContext;

/// If a key has been the current key for longer than this time, the position of the key in the file
/// is not the result of an interrupted rotation. For example, the key file was copied from another
/// host.
const INTERRUPTED: Duration = Duration::from_hours(1);

pub(super) async fn rotate(context: &CliContext) -> anyhow::Result<()> {
    let file = KeyFile::lock(&context.config.key_file)?;
    let keys = FileKey::all(file.keys()?)?;
    let known = known_keys(context, &keys).await?;
    let Some(current) = in_state(&known, KeyState::Current) else {
        bail!("the database has no current key");
    };
    if keys.iter().all(|key| key.kid() != current.kid) {
        bail!(
            "the key file {} does not contain the current key {}: copy the key file from another host",
            context.config.key_file.display(),
            current.kid
        );
    }
    let is_first = keys.first().is_some_and(|key| key.kid() == current.kid);
    let is_recent = current.changed_at.plus(INTERRUPTED) > context.clock.now();
    let pending = in_state(&known, KeyState::Pending);
    if pending.is_none() && !is_first && is_recent {
        print_line("An earlier rotation was interrupted after its key became the current key.")?;
        return finish(context, &file, &current.kid).await;
    }
    let kid = match pending {
        Some(pending) => in_this_file(context, &keys, &pending.kid).await?,
        None => add(context, &file, &keys, &known).await?,
    };
    activate(context, &kid).await?;
    finish(context, &file, &kid).await
}

/// Returns the keys that the database knows. If no service has used the database yet, registers the
/// keys of the file first.
async fn known_keys(context: &CliContext, keys: &[FileKey]) -> anyhow::Result<Vec<ServiceKey>> {
    if context
        .directory
        .keys
        .current_service_key()
        .await?
        .is_none()
    {
        let kids: Vec<&str> = keys.iter().map(FileKey::kid).collect();
        context
            .directory
            .keys
            .register_service_keys(&kids, "")
            .await?;
    }
    Ok(context.directory.keys.list().await?)
}

/// Returns the pending key if it is in the key file of this machine.
async fn in_this_file(
    context: &CliContext,
    keys: &[FileKey],
    pending: &str,
) -> anyhow::Result<String> {
    if keys.iter().any(|key| key.kid() == pending) {
        return Ok(pending.to_owned());
    }
    let hosts = context.directory.hosts.list().await?;
    let source = match names_with(&hosts, pending).as_slice() {
        [] => "the host where the rotation began".to_owned(),
        names => escape(&names.join(", ")),
    };
    bail!(
        "the key {pending} is pending, and it is not in {}: copy the key file from {source}, then run `latchmail key rotate` again",
        context.config.key_file.display()
    );
}

/// Adds a new key to the file, and makes this key pending. Returns the id of the key.
async fn add(
    context: &CliContext,
    file: &KeyFile,
    keys: &[FileKey],
    known: &[ServiceKey],
) -> anyhow::Result<String> {
    let is_new = |key: &&FileKey| known.iter().all(|known| known.kid != key.kid());
    let kid = if let Some(key) = keys.iter().find(is_new) {
        key.kid().to_owned()
    } else {
        let new = latchmail_core::keyring::Key::derive(&file.append_new()?)?;
        let path = context.config.key_file.display();
        print_line(&format!("Added the key {} to {path}.", new.kid))?;
        new.kid
    };
    let pending = context.directory.keys.add_pending_service_key(&kid).await?;
    if pending.as_ref() != Some(&kid) {
        bail!("another rotation has begun at the same time; run `latchmail key rotate` again");
    }
    Ok(kid)
}

/// Waits until all running hosts have the key, and makes it the current key.
async fn activate(context: &CliContext, kid: &str) -> anyhow::Result<()> {
    let without = wait_for_hosts(context, |host| has(host, kid)).await?;
    let missing = if without.is_empty() {
        match context.directory.keys.activate_service_key(kid).await? {
            Activation::Activated => return Ok(()),
            Activation::MissingOn(names) => names,
            Activation::NotPending => bail!("the key {kid} is no longer pending"),
        }
    } else {
        without
    };
    bail!(
        "these hosts do not have the key {kid}: {}. Copy {} to these hosts, then run `latchmail key rotate` again",
        escape(&missing.join(", ")),
        context.config.key_file.display()
    );
}

/// Waits until all running hosts use the key as their current key, and moves the key to the top of
/// the file.
async fn finish(context: &CliContext, file: &KeyFile, kid: &str) -> anyhow::Result<()> {
    let path = context.config.key_file.display();
    let without = wait_for_hosts(context, |host| host.key_id == kid).await?;
    if !without.is_empty() {
        bail!(
            "{kid} is the current key, but these hosts do not use it yet: {}. Read their logs, then run `latchmail key rotate` again",
            escape(&without.join(", "))
        );
    }
    let keys = FileKey::all(file.keys()?)?;
    if let Some(key) = keys.iter().find(|key| key.kid() == kid)
        && let Err(error) = file.move_to_top(&key.key)
    {
        // The database decides which key is current, so the order of the lines is only for people.
        print_line(&format!("The order of the keys does not change: {error}."))?;
    }
    let known = context.directory.keys.list().await?;
    print_line(&format!("{kid} is the current key."))?;
    print_line(&format!(
        "Back up {path}, separately from the database. If other hosts have key files of their own, copy {path} to them."
    ))?;
    let earlier = known
        .iter()
        .filter(|key| key.state == KeyState::Earlier)
        .filter(|key| keys.iter().any(|in_file| in_file.kid() == key.kid));
    for key in earlier {
        let after = key.changed_at.plus(IN_USE);
        print_line(&format!(
            "After {after}, remove the earlier key: latchmail key remove {}",
            key.kid
        ))?;
    }
    Ok(())
}

/// Waits until all running hosts meet a condition. Returns the names of the hosts that do not meet
/// the condition in time.
async fn wait_for_hosts(
    context: &CliContext,
    is_met: impl Fn(&Host) -> bool,
) -> anyhow::Result<Vec<String>> {
    let deadline = Instant::now() + NOTICE_TIMEOUT;
    loop {
        let hosts = context.directory.hosts.list().await?;
        let without = names(hosts.iter().filter(|host| !is_met(host)));
        if without.is_empty() || Instant::now() > deadline {
            return Ok(without);
        }
        sleep(POLL_INTERVAL).await;
    }
}
