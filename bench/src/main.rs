//! What the service costs beside what it stands on: every figure is measured next to its counterpart, in turns, in one run, and told as a
//! ratio. `./just bench` builds all of it optimised and runs it.
//!
//! - HTTP against raw IMAP and SMTP: the same facts from one warm mailbox, the same changes to it, the same mail, over warm connections, by clients
//!   that are alike.
//! - A large folder against a small one: the same listing of each.
//! - The sandbox against its native twin: the mail component and the same code as a library, over the same values in memory.
//! - A hostile module against another program: the same listing beside each.
//! - A module: how long a version takes to serve after it was asked for, compiled and not.
//! - Memory: an idle host, what a connection adds, what downloads add.
//!
//! Figures of different runs or machines mean nothing beside each other; their ratios do. A run writes `<target>/bench/<time>.json`.

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
    /// The `latchmail` program that is measured.
    #[arg(long)]
    host: PathBuf,
    /// The folder with the built components.
    #[arg(long)]
    modules: PathBuf,
    /// The folder with the modules that only tests use.
    #[arg(long)]
    fixtures: PathBuf,
    /// Where the results are kept.
    #[arg(long)]
    results: PathBuf,
    /// A small mailbox and few rounds: tells whether the bench works, not what the service costs.
    #[arg(long)]
    quick: bool,
    /// Fail where a target is missed.
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
    // Memory before all else: what is left with the allocator would hide what these add.
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
    // After all others: the mail server keeps an account's messages together, and so many would be in the others' way.
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
