//! Benchmarks of the service. Each figure is measured together with a counterpart, alternately and in the same run, and is reported as a
//! ratio. `./just bench` builds everything with optimizations and runs the benchmarks.
//!
//! - HTTP against raw IMAP and SMTP: the same data of one mailbox, the same changes and the same mail, over warm connections and with
//!   equivalent clients.
//! - A large folder against a small one: the same listing of each.
//! - The sandbox against native code: the mail component, and the same code as a library, with the same values in memory.
//! - A hostile module against another program: the same listing next to each.
//! - A module: the time until a version serves, with and without compilation.
//! - Memory: an idle host, the increase per connection, the increase per download.
//!
//! Absolute figures of different runs or machines are not comparable; ratios are. A run writes `<target>/bench/<time>.json`.

mod bulk;
mod crowd;
mod http;
mod imap;
mod mailbox;
mod measure;
mod memory;
mod neighbour;
mod report;
mod routes;
mod sandbox;
mod search;
mod send;
mod service;
mod smtp;
mod swap;

use std::path::PathBuf;

use clap::Parser;

use report::Report;
use service::Service;

/// Measure the service.
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
    /// Use a small mailbox and few rounds. Checks that the benchmarks work; the figures are not meaningful.
    #[arg(long)]
    quick: bool,
    /// Exit with an error if a target is missed.
    #[arg(long)]
    strict: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let size = if arguments.quick {
        measure::Size::QUICK
    } else {
        measure::Size::FULL
    };
    let mut report = Report::default();
    let runtime = tokio::runtime::Runtime::new()?;
    let service = runtime.block_on(Service::start(
        &arguments.host,
        &arguments.modules,
        &arguments.fixtures,
        &mut report,
    ))?;
    // Memory is measured first, because memory that the allocator retains from other benchmarks would hide the increase.
    memory::connections(&service, &mut report)?;
    let mailbox = mailbox::fill(&service, size.messages)?;
    memory::downloads(&service, &mailbox, &mut report)?;
    routes::measure(&service, &mailbox, &size, &mut report)?;
    bulk::flag(&service, &mailbox, &size, &mut report)?;
    bulk::relocate(&service, &size, &mut report)?;
    search::measure(&service, &size, &mut report)?;
    send::measure(&service, &size, &mut report)?;
    neighbour::measure(&service, &size, &mut report)?;
    swap::measure(&service, &arguments.modules, &size, &mut report)?;
    // This runs after the other benchmarks: the mail server stores all messages of an account together, so this many messages would slow
    // down the others.
    crowd::measure(&service, &size, &mut report)?;
    runtime.block_on(service.stop());
    sandbox::measure(&arguments.modules, &size, &mut report)?;
    report.print();
    if !arguments.quick {
        report.keep(&arguments.results)?;
    }
    anyhow::ensure!(
        !(arguments.strict && report.misses()),
        "a target was missed"
    );
    Ok(())
}
