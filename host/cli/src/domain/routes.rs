//! `latchmail domain routes`: shows and changes the catch-all and the separator of a domain.

use anyhow::bail;
use latchmail_terminal::output::print_line;

use crate::account::routing;
use crate::context::CliContext;

/// Changes the given settings, and prints the settings of the domain.
pub(super) async fn run(
    context: &CliContext,
    domain: &str,
    catch_all: Option<String>,
    separator: Option<String>,
) -> anyhow::Result<()> {
    let name = super::parse_domain(domain)?;
    let Some(before) = context.directory.domains.settings(&name).await? else {
        bail!("{name} is neither a platform domain nor a verified domain");
    };
    let mut settings = before.clone();
    if catch_all.is_some() {
        settings.catch_all = catch_all.filter(|given| given != "none");
    }
    if separator.is_some() {
        settings.separator = separator.filter(|given| given != "none");
    }
    if settings != before {
        let now = context.clock.now();
        let changed = routing::routing(context)
            .set_domain(&name, settings.clone(), now, &context.origin)
            .await;
        if let Err(failure) = changed {
            bail!("{}", failure.text);
        }
    }
    print_line(&format!(
        "{name}: catch-all {}, separator {}.",
        settings.catch_all.as_deref().unwrap_or("none"),
        settings.separator.as_deref().unwrap_or("none")
    ))
}
