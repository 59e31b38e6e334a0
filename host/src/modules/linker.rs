//! The linker: a module gets the interfaces that its operator granted, and what every module has; nothing else is there to be found.

use std::collections::BTreeSet;

use latchmail_bindings::latchmail::host;
use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::p2::bindings::{cli, filesystem, random, sockets};

use super::sandbox::Sandbox;
use crate::api::Call;

/// Interfaces of `latchmail:host` that every module has: none of them reaches anything of a caller's.
pub(super) const UNGRANTED: [&str; 4] = ["types", "blobs", "log", "config"];

/// Interfaces of `latchmail:host` that an operator may grant.
pub const GRANTABLE: [&str; 10] = [
    "caller",
    "mailbox",
    "outbox",
    "profile",
    "credentials",
    "aliases",
    "domains",
    "teams",
    "store",
    "http-client",
];

/// The part of WASI 0.2 that a language's standard library leans on. There is nothing behind it: no arguments, no environment, no
/// files. Sockets are here because Python's imports them whether a module uses them or not; whoever asks for one, or for an address of a name, is denied
/// ([`super::sandbox`]).
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

/// What `component` imports, by name.
pub(crate) fn imports(engine: &Engine, component: &Component) -> Vec<String> {
    component
        .component_type()
        .imports(engine)
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Whether `grants`, or what every module has, cover an import.
#[must_use]
pub fn covered(import: &str, grants: &[String]) -> bool {
    let interface = import.split('@').next().unwrap_or(import);
    if let Some(own) = interface.strip_prefix("latchmail:host/") {
        return UNGRANTED.contains(&own) || grants.iter().any(|grant| grant == own);
    }
    WASI.iter().any(|allowed| match allowed.strip_suffix('/') {
        Some(package) => interface
            .strip_prefix(package)
            .is_some_and(|rest| rest.starts_with('/')),
        None => interface == *allowed,
    })
}

/// A linker that holds what `grants` name and what every module has.
pub(crate) fn linker(engine: &Engine, grants: &[String]) -> wasmtime::Result<Linker<Sandbox>> {
    let mut linker = Linker::new(engine);
    wasi(&mut linker)?;
    host::types::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?;
    host::blobs::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?;
    host::log::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?;
    host::config::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?;
    for grant in grants.iter().collect::<BTreeSet<_>>() {
        match grant.as_str() {
            "caller" => host::caller::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "mailbox" => host::mailbox::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "outbox" => host::outbox::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "profile" => host::profile::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "credentials" => {
                host::credentials::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?;
            }
            "aliases" => host::aliases::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "domains" => host::domains::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "teams" => host::teams::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "store" => host::store::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?,
            "http-client" => {
                host::http_client::add_to_linker::<_, HasSelf<Call>>(&mut linker, call)?;
            }
            unknown => return Err(wasmtime::Error::msg(format!("no interface `{unknown}`"))),
        }
    }
    Ok(linker)
}

/// A linker that holds all that there is, whatever was granted: enough to ask a component what it is. Behind it all is nobody's request: what needs a
/// caller is denied.
///
/// # Errors
/// A sentence where `component` imports what no module may have.
pub(crate) fn whatever_it_imports(
    engine: &Engine,
    component: &Component,
) -> Result<Linker<Sandbox>, String> {
    let all = GRANTABLE.map(str::to_owned);
    let mut strange = imports(engine, component);
    strange.retain(|import| !covered(import, &all));
    if !strange.is_empty() {
        return Err(format!(
            "it imports what no module may have: {}",
            strange.join(", ")
        ));
    }
    linker(engine, &all).map_err(|e| format!("it cannot be linked: {e:#}"))
}

fn call(sandbox: &mut Sandbox) -> &mut Call {
    &mut sandbox.call
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
        assert!(covered("latchmail:host/caller@1.0.0", &grants));
        assert!(covered("latchmail:host/log@1.0.0", &grants));
        assert!(!covered("latchmail:host/mailbox@1.0.0", &grants));
        assert!(covered("wasi:random/insecure-seed@0.2.6", &grants));
        assert!(covered("wasi:io/streams@0.2.6", &grants));
        assert!(covered("wasi:sockets/tcp@0.2.6", &grants));
        assert!(!covered("wasi:http/outgoing-handler@0.2.6", &grants));
        assert!(!covered("wasi:randomness/x@0.2.6", &grants));
    }

    #[test]
    fn whatever_may_be_granted_can_be_linked() {
        let engine = Engine::default();
        let grants = GRANTABLE.map(str::to_owned);
        assert!(linker(&engine, &grants).is_ok());
        assert!(linker(&engine, &["nothing".to_owned()]).is_err());
    }
}
