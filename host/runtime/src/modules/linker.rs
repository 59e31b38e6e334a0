//! Links components with the interfaces that the operator granted and with the interfaces that
//! every module can use.

use std::collections::BTreeSet;

use latchmail_bindings::latchmail::host;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::p2::bindings::{cli, filesystem, random, sockets};

use super::sandbox::Sandbox;
use crate::api::{HasTaped, Taped};

/// Interfaces of `latchmail:host` that every module can use. These interfaces give no access to a
/// caller's data.
pub(super) const UNGRANTED: [&str; 5] = ["types", "blobs", "streams", "log", "config"];

/// Interfaces of `latchmail:host` that an operator can grant.
pub const GRANTABLE: [&str; 18] = [
    "caller",
    "mailbox",
    "queries",
    "outbox",
    "profile",
    "credentials",
    "aliases",
    "domains",
    "teams",
    "store",
    "http-client",
    "compose",
    "drafts",
    "deliveries",
    "filters",
    "webhooks",
    "subscriptions",
    "modules",
];

/// The interfaces of WASI 0.2 that the standard libraries of programming languages need. These
/// interfaces give no access to arguments, environment variables or files. Python's standard
/// library always imports the socket interfaces. A guest can neither create a socket nor resolve a
/// name ([`super::sandbox`]).
const WASI: [&str; 19] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/",
    "wasi:sockets/",
];

/// Returns the names of the imports of `component`.
pub(crate) fn imports(engine: &Engine, component: &Component) -> Vec<String> {
    component
        .component_type()
        .imports(engine)
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Returns whether a module with `grants` can use an import. Some interfaces need no grant, because
/// every module can use them.
#[must_use]
pub fn is_granted(import: &str, grants: &[String]) -> bool {
    let interface = import.split('@').next().unwrap_or(import);
    if let Some(name) = interface.strip_prefix("latchmail:host/") {
        return UNGRANTED.contains(&name) || grants.iter().any(|grant| grant == name);
    }
    WASI.iter().any(|allowed| match allowed.strip_suffix('/') {
        Some(package) => interface
            .strip_prefix(package)
            .is_some_and(|rest| rest.starts_with('/')),
        None => interface == *allowed,
    })
}

/// Returns a linker with the granted interfaces and with the interfaces that every module can use.
pub(crate) fn linker(engine: &Engine, grants: &[String]) -> wasmtime::Result<Linker<Sandbox>> {
    let mut linker = Linker::new(engine);
    wasi(&mut linker)?;
    host::types::add_to_linker::<_, HasTaped>(&mut linker, call)?;
    host::blobs::add_to_linker::<_, HasTaped>(&mut linker, call)?;
    host::streams::add_to_linker::<_, HasTaped>(&mut linker, call)?;
    host::log::add_to_linker::<_, HasTaped>(&mut linker, call)?;
    host::config::add_to_linker::<_, HasTaped>(&mut linker, call)?;
    for grant in grants.iter().collect::<BTreeSet<_>>() {
        match grant.as_str() {
            "caller" => host::caller::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "mailbox" => host::mailbox::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "queries" => host::queries::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "outbox" => host::outbox::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "profile" => host::profile::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "credentials" => {
                host::credentials::add_to_linker::<_, HasTaped>(&mut linker, call)?;
            }
            "aliases" => host::aliases::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "domains" => host::domains::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "teams" => host::teams::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "store" => host::store::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "http-client" => {
                host::http_client::add_to_linker::<_, HasTaped>(&mut linker, call)?;
            }
            "compose" => host::compose::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "drafts" => host::drafts::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "deliveries" => {
                host::deliveries::add_to_linker::<_, HasTaped>(&mut linker, call)?;
            }
            "filters" => host::filters::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "webhooks" => host::webhooks::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            "subscriptions" => {
                host::subscriptions::add_to_linker::<_, HasTaped>(&mut linker, call)?;
            }
            "modules" => host::modules::add_to_linker::<_, HasTaped>(&mut linker, call)?,
            unknown => {
                return Err(wasmtime::Error::msg(format!(
                    "there is no interface `{unknown}`"
                )));
            }
        }
    }
    Ok(linker)
}

/// Returns a linker with all interfaces of the host. The linker is used to call `describe`, because
/// the grants of the module are not known before this call. The call has no caller, so functions
/// that need a caller return an error.
///
/// # Errors
/// Returns an error if one of the component's imports is missing in the host. The error is a phrase
/// that follows the name of the component.
pub(crate) fn linker_with_all(
    engine: &Engine,
    imports: &[String],
) -> Result<Linker<Sandbox>, String> {
    let all = GRANTABLE.map(str::to_owned);
    let is_unknown = |import: &&str| !is_granted(import, &all);
    let unknown: Vec<&str> = imports
        .iter()
        .map(String::as_str)
        .filter(is_unknown)
        .collect();
    if !unknown.is_empty() {
        return Err(format!(
            "it imports interfaces that this host does not have: {}",
            unknown.join(", ")
        ));
    }
    linker(engine, &all).map_err(|e| format!("it cannot be linked: {e:#}"))
}

fn call(sandbox: &mut Sandbox) -> Taped<'_> {
    Taped(&mut sandbox.call)
}

fn wasi(linker: &mut Linker<Sandbox>) -> wasmtime::Result<()> {
    use wasmtime_wasi::cli::WasiCli;
    use wasmtime_wasi::cli::WasiCliView as _;
    use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
    use wasmtime_wasi::random::WasiRandom;
    use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};

    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(linker)?;
    random::insecure::add_to_linker::<_, WasiRandom>(linker, |s| s.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, |s| s.ctx().ctx.random())?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, Sandbox::filesystem)?;
    filesystem::types::add_to_linker::<_, WasiFilesystem>(linker, Sandbox::filesystem)?;
    cli::environment::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, Sandbox::cli)?;
    let network = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &network, Sandbox::sockets)?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, Sandbox::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, Sandbox::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, Sandbox::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, Sandbox::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, Sandbox::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, Sandbox::sockets)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_covered_by_its_grant_alone() {
        let grants = ["caller".to_owned()];
        assert!(is_granted("latchmail:host/caller@1.0.0", &grants));
        assert!(is_granted("latchmail:host/log@1.0.0", &grants));
        assert!(!is_granted("latchmail:host/mailbox@1.0.0", &grants));
        assert!(is_granted("wasi:random/insecure-seed@0.2.6", &grants));
        assert!(is_granted("wasi:io/streams@0.2.6", &grants));
        assert!(is_granted("wasi:sockets/tcp@0.2.6", &grants));
        assert!(!is_granted("wasi:http/outgoing-handler@0.2.6", &grants));
        assert!(!is_granted("wasi:randomness/x@0.2.6", &grants));
    }

    #[test]
    fn all_grantable_interfaces_can_be_linked() {
        let engine = Engine::default();
        let grants = GRANTABLE.map(str::to_owned);
        assert!(linker(&engine, &grants).is_ok());
        assert!(linker(&engine, &["nothing".to_owned()]).is_err());
    }
}
