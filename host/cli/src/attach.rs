//! `latchmail attach` and `latchmail detach`.

use latchmail_attach::AliasFile;
pub use latchmail_attach::{AttachArgs, DetachArgs};
use latchmail_terminal::output::print_line;

use crate::alias;
use crate::context::{CliContext, ServiceArgs};

/// Attaches the service to a running mail server, and imports the existing aliases.
///
/// # Errors
/// Returns an error if the mail server cannot be attached. All changes are undone in that case,
/// unless the error says otherwise.
pub async fn attach(service: &ServiceArgs, args: &AttachArgs) -> anyhow::Result<()> {
    let file = service.locate()?;
    let Some(files) = Box::pin(latchmail_attach::attach(&file, args)).await? else {
        return Ok(());
    };
    import_aliases(service, files).await?;
    print_line(
        "Latchmail is attached. Start or restart the service, so that it reads its new settings.",
    )
}

/// Restores the mail server's state before the attachment.
///
/// # Errors
/// Returns an error if a file cannot be restored. The command can be repeated.
pub fn detach(service: &ServiceArgs, args: &DetachArgs) -> anyhow::Result<()> {
    latchmail_attach::detach(&service.locate()?, args)
}

/// Imports the existing aliases of users, so that the users can send from them. Reports a failure,
/// but does not undo the attachment.
async fn import_aliases(service: &ServiceArgs, files: Vec<AliasFile>) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let context = CliContext::open(service).await?;
    for (file, domain) in files {
        let name = file.display();
        let imported = Box::pin(alias::import_table(&context, &file, domain)).await;
        let result = match imported {
            Ok(report) => report.summary(),
            Err(error) => format!("{error:#}"),
        };
        print_line(&format!(
            "aliases in {name}: {result} (`latchmail alias import {name}` shows the reasons)"
        ))?;
    }
    context.close().await;
    Ok(())
}
