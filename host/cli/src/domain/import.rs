//! `latchmail domain import`: adds several platform domains.

use std::path::PathBuf;

use anyhow::Context as _;
use latchmail_directory::domains::platform_domains::Added;
use latchmail_terminal::output::escape;

use super::parse_domain;
use crate::context::CliContext;
use crate::import::{self, Report, Status};
use crate::postfix_table::first_column;

/// Arguments of `latchmail domain import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// File with one domain per line, or a Postfix table whose first column has the domains. `-` is
    /// standard input.
    file: PathBuf,
    /// Print one JSON object for each domain.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a domain was not added, or if the command fails. A failed command can be
/// repeated.
pub(super) async fn run(context: &CliContext, arguments: &Import) -> anyhow::Result<()> {
    let mut report = Report::default();
    for (line, text) in first_column(&import::read(&arguments.file)?) {
        let (name, status) = match parse_domain(&text) {
            Ok(name) => {
                let status = add(context, &name).await.with_context(|| {
                    format!(
                        "the import stopped at {}, and can be repeated",
                        escape(&name)
                    )
                })?;
                (name, status)
            }
            Err(_) => (
                text,
                Status::failed(format!("is not a domain (line {line})")),
            ),
        };
        report.add(name, status);
    }
    report.print(arguments.json)
}

async fn add(context: &CliContext, name: &str) -> anyhow::Result<Status> {
    let (now, origin) = (context.clock.now(), &context.origin);
    let added = context
        .directory
        .domains
        .add_platform_domain(name, now, origin)
        .await?;
    Ok(match added {
        Added::Added { .. } => Status::Imported,
        Added::Already => Status::Unchanged,
        Added::Taken(owner) => Status::failed(format!("belongs to {owner}, who verified it")),
    })
}
