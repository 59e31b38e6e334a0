//! `latchmail account close`, `rename` and `forward`: commands that plan the deletion of an
//! account, and that change where its mail goes.

use anyhow::bail;
use latchmail_accounts::routing::Routing;
use latchmail_directory::accounts::removal::Scheduling;
use latchmail_mailbox::SessionSelector;
use latchmail_terminal::output::print_line;

use crate::context::{CliContext, account_not_found};

/// Disables an account and plans its deletion.
pub(crate) async fn close(
    context: &CliContext,
    address: &str,
    at_once: bool,
) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let now = context.clock.now();
    let at = if at_once {
        now
    } else {
        now.plus(context.config.accounts.grace)
    };
    let accounts = &context.directory.accounts;
    let planned = accounts.schedule_deletion(&account.id, None, at, now, &context.origin);
    let deletes_at = match planned.await? {
        Scheduling::Planned { deletes_at, .. } => deletes_at,
        Scheduling::Unknown | Scheduling::SessionOver => {
            return Err(account_not_found(&account.address));
        }
    };
    let printed = print_line(&format!(
        "{} is disabled. The service deletes the account and its mailbox at {deletes_at} or later.",
        account.address
    ));
    let sessions = SessionSelector::Account(&account.address);
    context.end_sessions(sessions).await;
    printed
}

/// Changes the address of an account.
pub(crate) async fn rename(context: &CliContext, address: &str, new: &str) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let now = context.clock.now();
    let renamed = routing(context)
        .rename(&account, new, now, &context.origin)
        .await;
    let renamed = match renamed {
        Ok(renamed) => renamed,
        Err(failure) => bail!("{}", failure.text),
    };
    let Some(renamed) = renamed else {
        return print_line(&format!("{} already has this address.", account.address));
    };
    let printed = print_line(&format!(
        "{} has the new address {}. The previous address is an alias. Mail clients must log in with the new address.",
        renamed.from,
        new.to_ascii_lowercase()
    ));
    context
        .end_sessions(SessionSelector::Account(&renamed.from))
        .await;
    printed
}

/// Changes the address to which copies of an account's mail are forwarded.
pub(crate) async fn forward(context: &CliContext, address: &str, to: &str) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let to = Some(to).filter(|to| *to != "off");
    let now = context.clock.now();
    let changed = routing(context)
        .set_forward_to(&account.id, to, now, &context.origin)
        .await;
    let changed = match changed {
        Ok(changed) => changed,
        Err(failure) => bail!("{}", failure.text),
    };
    let already = if changed { "" } else { " already" };
    print_line(&match to {
        Some(to) => format!(
            "Copies of the mail of {} are{already} forwarded to {to}.",
            account.address
        ),
        None => format!("The mail of {} is{already} not forwarded.", account.address),
    })
}

/// Returns the operations on routes.
pub(crate) fn routing(context: &CliContext) -> Routing {
    Routing::new(context.directory.clone(), context.config.sign_in.clone())
}
