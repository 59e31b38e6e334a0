//! Compares frequent operations with IMAP commands that return the same data, with many clients of one account and of many accounts.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Runtime;

use crate::mailbox::{self, Known, Mailbox};
use crate::measure::{Call, Workload, compare, measure_alone};
use crate::operations::{FREQUENT, Operation};
use crate::report::Report;
use crate::routes::{CLIENTS, check_length, imap_call, response_length};
use crate::sections::Sections;
use crate::service::{Account, Service};

/// Number of clients in the comparisons. Each account may have 100 connections to the mail server. The mail server has a process for each
/// connection, and the kernel limits the inotify instances of these processes together (usually 128). Therefore this program has at most 64
/// connections at a time, in addition to those of the service.
const MANY_CLIENTS: usize = 64;

/// Number of clients without a counterpart, because the mail server does not allow as many connections of one account.
const MOST_CLIENTS: usize = 256;

/// Target: maximum ratio of the route's p99 to its p50 with [`MANY_CLIENTS`] clients.
const MAX_SPREAD: f64 = 8.0;

/// Number of messages in the inbox of each additional account.
const MESSAGES: usize = 110;

/// Maximum number of intervals per side. The intervals are longer than those of other benchmarks, because a call takes longer.
const MAX_ROUNDS: usize = 3;

/// An account and its mailbox.
struct Owner<'a> {
    account: &'a Account,
    mailbox: &'a Mailbox,
}

/// Measures the selected operations.
pub(crate) fn measure(
    service: &Service,
    runtime: &Runtime,
    mailbox: &Mailbox,
    workload: &Workload,
    sections: &Sections,
    report: &mut Report,
) -> anyhow::Result<()> {
    let selected: Vec<_> = FREQUENT
        .iter()
        .filter(|operation| sections.include_operation("concurrency", operation))
        .collect();
    if selected.is_empty() {
        return Ok(());
    }
    let accounts = (0..workload.accounts)
        .map(|number| runtime.block_on(service.create_account(&format!("owner{number}"))))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let workload = Workload {
        rounds: workload.rounds.min(MAX_ROUNDS),
        interval: workload.interval * 3 / 2,
        ..*workload
    };
    let known = [Known::Newsletter, Known::SmallAttachment];
    let mailboxes = accounts
        .iter()
        .map(|account| mailbox::fill(service, account, MESSAGES, &known))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let many: Vec<_> = accounts
        .iter()
        .zip(&mailboxes)
        .map(|(account, mailbox)| Owner { account, mailbox })
        .collect();
    let one = [Owner {
        account: service.measured(),
        mailbox,
    }];
    for operation in selected {
        // Eight clients of one account are measured with the other routes.
        for (owners, clients) in [
            (&one[..], MANY_CLIENTS),
            (&many, CLIENTS),
            (&many, MANY_CLIENTS),
        ] {
            compare_sides(service, operation, owners, clients, &workload, report)?;
        }
        let failures = Failures::default();
        let mut calls = http_calls(service, operation, &one, MOST_CLIENTS, &failures)?;
        let mut route = measure_alone(&workload, &mut calls)?;
        route.errors = failures.count();
        report.failures(operation.name, MOST_CLIENTS, &route);
    }
    Ok(())
}

fn compare_sides(
    service: &Service,
    operation: &Operation,
    owners: &[Owner<'_>],
    clients: usize,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let failures = Failures::default();
    let commands: Vec<_> = owners
        .iter()
        .map(|owner| (operation.command)(owner.mailbox))
        .collect();
    let connections = (0..clients.max(owners.len()))
        .map(|number| number % owners.len())
        .map(|owner| {
            let client = service.imap_of(owners[owner].account)?;
            imap_call(client, &commands[owner], operation.min_length[0])
        })
        .collect::<anyhow::Result<_>>()?;
    let mut left = distribute(connections, clients);
    let mut right = http_calls(service, operation, owners, clients, &failures)?;
    let [raw, mut route] = compare(workload, &mut left, &mut right)?;
    route.errors = failures.count();
    let name = match owners.len() {
        1 => operation.name.to_owned(),
        accounts => format!("{}, {accounts} accounts", operation.name),
    };
    report.throughput(&name, clients, &raw, &route, None);
    if clients == MANY_CLIENTS {
        report.spread(&name, clients, &route, MAX_SPREAD);
    }
    Ok(())
}

/// Returns a call of the route for each client. A call that fails is counted, and the client connects again.
fn http_calls<'a>(
    service: &'a Service,
    operation: &Operation,
    owners: &[Owner<'a>],
    clients: usize,
    failures: &'a Failures,
) -> anyhow::Result<Vec<Call<'a>>> {
    let connections = (0..clients.max(owners.len()))
        .map(|number| -> anyhow::Result<Call<'a>> {
            let Owner { account, mailbox } = owners[number % owners.len()];
            let path = (operation.path)(mailbox);
            let mut client = service.http_of(&account.token)?;
            let expected = response_length(&mut client, &path, operation.min_length[1])?;
            Ok(Box::new(move || {
                let called = client.get(&path);
                if let Err(error) = called.and_then(|length| check_length(length, expected)) {
                    failures.add(&error);
                    client = service.http_of(&account.token)?;
                }
                Ok(())
            }))
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(distribute(connections, clients))
}

/// Distributes connections to clients. A client uses its connections in turn.
fn distribute(connections: Vec<Call<'_>>, clients: usize) -> Vec<Call<'_>> {
    let mut groups: Vec<Vec<Call<'_>>> = (0..clients).map(|_| Vec::new()).collect();
    for (number, connection) in connections.into_iter().enumerate() {
        groups[number % clients].push(connection);
    }
    groups
        .into_iter()
        .map(|mut group| -> Call<'_> {
            let mut next = 0;
            Box::new(move || {
                next = (next + 1) % group.len();
                group[next]()
            })
        })
        .collect()
}

/// The number of failed calls.
#[derive(Default)]
struct Failures(AtomicUsize);

impl Failures {
    /// Counts a failed call. Prints the first error.
    fn add(&self, error: &anyhow::Error) {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            eprintln!("{error:#}");
        }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
