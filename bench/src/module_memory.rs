//! Measures the memory of an installed module that has served a request.
//!
//! The measurement compares a host with all built-in modules and a host with the mail module only.
//! Both hosts load compiled modules from a cache folder.

use std::path::Path;

use tokio::runtime::Runtime;

use crate::memory::settled;
use crate::report::Report;
use crate::service::{Service, built_in};

/// The other built-in modules, each with a route.
const MODULES: [(&str, &str); 6] = [
    ("credentials", "/api/v1/profile"),
    ("aliases", "/api/v1/aliases"),
    ("domains", "/api/v1/domains"),
    ("teams", "/api/v1/teams"),
    ("webhooks", "/api/v1/webhooks"),
    ("mcp", "/mcp"),
];

/// Measures both hosts and reports the difference per module.
pub(crate) fn measure(
    host: &Path,
    modules: &Path,
    runtime: &Runtime,
    report: &mut Report,
) -> anyhow::Result<()> {
    let cache = tempfile::Builder::new()
        .prefix("lm-bench")
        .tempdir_in("/tmp")?;
    let run = |with: &[(&str, &str)]| -> anyhow::Result<f64> {
        let sections: String = with
            .iter()
            .map(|(module, _)| built_in(modules, module))
            .collect();
        let service = runtime.block_on(Service::start_compiled(
            host,
            &[],
            modules,
            &sections,
            cache.path(),
        ))?;
        let mut client = service.http_of(&service.register("ada")?)?;
        client.get("/api/v1/mail/folders")?;
        for &(_, route) in with {
            // The route of the agents' module accepts no GET requests. The module serves the
            // request in any case.
            client.response(route)?;
        }
        let memory = settled(service.pid())?;
        runtime.block_on(service.stop());
        Ok(memory)
    };
    let [without, with] = [run(&[])?, run(&MODULES)?];
    #[expect(clippy::cast_precision_loss, reason = "a count of modules")]
    let each = (with - without) / MODULES.len() as f64;
    report.memory("installed module that has served a request", each, None);
    Ok(())
}
