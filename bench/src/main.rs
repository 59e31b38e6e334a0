//! Benchmarks of the service. Most benchmarks measure the service and a counterpart alternately in
//! the same run, and report the ratio. `./just bench` builds everything with optimizations and runs
//! the benchmarks.
//!
//! - HTTP and raw IMAP or SMTP: the same data, changes and mail, over open connections, with one
//!   client and with eight.
//! - Operations with 1, 8 and 64 clients: the throughput, the latencies, and the number of errors,
//!   next to raw IMAP or SMTP.
//! - The search index: the time and the memory to build it, its size, and searches next to raw
//!   IMAP.
//! - A large and a small folder: the same listing of each.
//! - The sandbox and native code: the mail component and the same code as a library, with the same
//!   values in memory.
//! - A hostile module and another program that uses the CPU: the same listing at the same time as
//!   each.
//! - Handlers of modules: the CPU time and the rate of their calls, and the same listing with and
//!   without hostile handlers.
//! - Installation of a module: the time until a version serves, with and without compilation.
//! - Several hosts: the listings of two hosts and of one host, with a simulated mail server.
//! - Metrics and traces: the same listings with and without scrapes and a collector of spans.
//! - Memory: an idle host, the increase per connection, the increase per download, an idle account,
//!   a module.
//! - Growth: listings, sign-ins, single messages and searches with more and more accounts, and in
//!   larger and larger mailboxes.
//!
//! `--only` selects some of these sections. `--profile` measures one operation instead, and
//! `--against` compares all operations with those of another commit. `--soak` calls the service for
//! a long time.
//!
//! Ratios of different runs and machines are comparable; absolute figures are not. A run writes
//! `<target>/bench/<time>.json`.

mod accounts;
mod against;
mod agent;
mod api;
mod bulk;
mod clients;
mod drafts;
mod handlers;
mod hostile_module;
mod hosts;
mod http;
mod imap;
mod large_folder;
mod mailbox;
mod mailbox_size;
mod measure;
mod memory;
mod messages;
mod module_memory;
mod module_swap;
mod not_modified;
mod observability;
mod operations;
mod page;
mod plots;
mod profile;
mod rank_test;
mod report;
mod routes;
mod sandbox;
mod search;
mod sections;
mod send;
mod service;
mod smtp;
mod soak;
mod stored;

use std::path::{Path, PathBuf};

use clap::Parser;
use tokio::runtime::Runtime;

use mailbox::Known;
use measure::Workload;
use page::Head;
use report::Report;
use sections::Sections;
use send::Delivery;
use service::Service;

/// Benchmarks of the service.
#[derive(Debug, Parser)]
struct Arguments {
    /// The `latchmail` program to measure.
    #[arg(long)]
    host: PathBuf,
    /// Folder with the built components.
    #[arg(long)]
    modules: PathBuf,
    /// Folder with the modules that only tests use.
    #[arg(long)]
    fixtures: PathBuf,
    /// Folder for the results.
    #[arg(long)]
    results: PathBuf,
    /// Use a small mailbox and few rounds. Checks that the benchmarks work; the figures are not
    /// meaningful.
    #[arg(long)]
    quick: bool,
    /// Run only the sections whose names contain this text, for example `send`, `clients` or
    /// `route: listing`. Can be repeated. Prints all names if none contains the text. Does not
    /// write results.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Exit with an error if a target is missed.
    #[arg(long)]
    strict: bool,
    /// Folder for the page (`performance.md`, or `soak.md` with `--soak`) and its plots. A complete
    /// run writes them to the folder for the results by default.
    #[arg(long, value_name = "DIR")]
    page: Option<PathBuf>,
    #[command(flatten)]
    profile: profile::Arguments,
    #[command(flatten)]
    against: against::Arguments,
    #[command(flatten)]
    soak: soak::Arguments,
}

#[expect(clippy::too_many_lines, reason = "a list of sections")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = Runtime::new()?;
    let (host, modules, results) = (&arguments.host, &arguments.modules, &arguments.results);
    if let Some((route, counters)) = arguments.profile.selected() {
        return runtime.block_on(profile::run(
            route,
            counters,
            host,
            modules,
            results,
            arguments.quick,
        ));
    }
    if let Some((commit, baseline)) = arguments.against.selected() {
        return runtime.block_on(against::run(
            commit,
            baseline,
            host,
            modules,
            arguments.quick,
        ));
    }
    if let Some(minutes) = arguments.soak.selected() {
        let page = arguments.page.as_ref().unwrap_or(results);
        return soak::run(minutes, host, modules, page, &runtime);
    }
    let workload = if arguments.quick {
        Workload::QUICK
    } else {
        Workload::FULL
    };
    let sections = Sections::select(&arguments.only)?;
    let mut report = Report::default();
    let mut service = runtime.block_on(Service::start(host, modules, &arguments.fixtures))?;
    // Memory is measured first, because memory that the allocator retains from other benchmarks
    // would hide the increase. The idle host is measured before its first request.
    if sections.include("memory") {
        memory::idle(&service, &mut report)?;
    }
    runtime.block_on(service.create_measured_account())?;
    if sections.include("memory") {
        memory::connections(&service, &mut report)?;
    }
    let mailbox = mailbox::fill(&service, service.measured(), workload.messages, &Known::ALL)?;
    if sections.include("memory") {
        memory::downloads(&service, &mailbox, &mut report)?;
    }
    routes::measure(&service, &mailbox, &workload, &sections, &mut report)?;
    if sections.include("not modified") {
        not_modified::measure(&service, &mailbox, &workload, &mut report)?;
    }
    if sections.include("bulk flag") {
        bulk::flag(&service, &mailbox, &workload, &mut report)?;
    }
    if sections.include("bulk move") {
        bulk::move_messages(&service, &workload, &mut report)?;
    }
    if sections.include("search") {
        let account = runtime.block_on(service.create_account("searcher"))?;
        search::measure(&service, &account, &workload, &mut report)?;
    }
    service.renew_session()?;
    let delivery = Delivery::start(&service)?;
    if sections.include("send") {
        send::measure(&service, &delivery, &workload, &mut report)?;
    }
    if sections.include("drafts") {
        drafts::measure(&service, &delivery, &workload, &mut report)?;
    }
    if sections.include("import") {
        stored::import(&service, &workload, &mut report)?;
    }
    if sections.include("several messages") {
        stored::several_messages(&service, &mailbox, &workload, &mut report)?;
    }
    if sections.include("hostile module") {
        hostile_module::measure(&service, &workload, &mut report)?;
    }
    if sections.include("module installation") {
        module_swap::measure(&service, modules, &workload, &mut report)?;
    }
    clients::measure(
        &service,
        &delivery,
        &runtime,
        &workload,
        &sections,
        &mut report,
    )?;
    // This runs after the other benchmarks of mail, because the many messages would slow them down:
    // the mail server stores all messages of an account together.
    if sections.include("large folder") {
        service.renew_session()?;
        large_folder::measure(&service, &workload, &mut report)?;
    }
    runtime.block_on(service.stop());
    measure_growth(host, modules, &runtime, &workload, &sections, &mut report)?;
    if sections.include("sandbox") {
        sandbox::measure(modules, &workload, &mut report)?;
    }
    if sections.include("several hosts") {
        hosts::measure(host, modules, &runtime, &workload, &mut report)?;
    }
    if sections.include("observability") {
        observability::measure(host, modules, &runtime, &workload, &mut report)?;
    }
    let programs = handlers::Programs {
        host,
        modules,
        fixtures: &arguments.fixtures,
        runtime: &runtime,
    };
    if sections.include("handler calls") {
        handlers::measure_calls(programs, &workload, &mut report)?;
    }
    if sections.include("hostile handlers") {
        handlers::measure_hostile(programs, &workload, &mut report)?;
    }
    finish(report, &arguments)
}

/// Prints the results, writes the files, and checks the targets.
fn finish(mut report: Report, arguments: &Arguments) -> anyhow::Result<()> {
    let results = &arguments.results;
    report.print();
    let is_complete = !arguments.quick && arguments.only.is_empty();
    if is_complete {
        report.save(results)?;
    }
    if let Some(folder) = arguments.page.as_ref().or(is_complete.then_some(results)) {
        report.add_results();
        report.page.write(folder, &Head::benchmarks(is_complete))?;
    }
    anyhow::ensure!(
        !(arguments.strict && report.has_missed_target()),
        "a target was missed; see MISSED in the table"
    );
    Ok(())
}

/// Measures the sections with services of their own: the memory of accounts and modules, and the
/// growth with accounts and messages.
fn measure_growth(
    host: &Path,
    modules: &Path,
    runtime: &Runtime,
    workload: &Workload,
    sections: &Sections,
    report: &mut Report,
) -> anyhow::Result<()> {
    if sections.include("idle accounts") {
        accounts::measure(host, modules, runtime, workload, report)?;
    }
    if sections.include("module memory") {
        module_memory::measure(host, modules, runtime, report)?;
    }
    if sections.include("mailbox size") {
        mailbox_size::measure(host, modules, runtime, workload, report)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
