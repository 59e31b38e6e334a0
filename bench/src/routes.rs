//! Compares routes with IMAP commands that return the same data.

use crate::mailbox::Mailbox;
use crate::measure::{Call, Workload, compare};
use crate::operations::{FREQUENT, RARE};
use crate::report::Report;
use crate::sections::Sections;
use crate::service::{Account, Service};
use crate::{http, imap};

/// Number of clients in the comparison of throughput.
pub(crate) const CLIENTS: usize = 8;

/// Measures all routes with one client and with several.
pub(crate) fn measure(
    service: &Service,
    mailbox: &Mailbox,
    workload: &Workload,
    sections: &Sections,
    report: &mut Report,
) -> anyhow::Result<()> {
    for operation in FREQUENT.iter().chain(&RARE) {
        if !sections.include_route(operation) {
            continue;
        }
        let account = service.measured();
        for clients in [1, CLIENTS] {
            let mut left = (0..clients)
                .map(|_| operation.imap_call(service, account, mailbox))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let mut right = (0..clients)
                .map(|_| operation.http_call(service, account, mailbox))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let [raw, route] = compare(workload, &mut left, &mut right)?;
            if clients == 1 {
                report.latency(operation.name, &raw, &route, operation.max_latency);
            } else {
                let target = operation.min_throughput;
                report.throughput(operation.name, clients, &raw, &route, target);
            }
        }
    }
    Ok(())
}

/// Returns a call of the command. Each response must have the same length.
pub(crate) fn imap_call(
    mut client: imap::Client,
    command: String,
    min_length: usize,
) -> anyhow::Result<Call<'static>> {
    let expected = client.run(&command)?;
    anyhow::ensure!(
        expected >= min_length,
        "{command} returned {expected} bytes"
    );
    Ok(Box::new(move || {
        let length = client.run(&command)?;
        check_length(length, expected)
    }))
}

/// Returns a call of the route on a new connection. Each response must have the same length.
pub(crate) fn http_call(
    service: &Service,
    account: &Account,
    path: String,
    min_length: usize,
) -> anyhow::Result<Call<'static>> {
    let mut client = service.http_of(&account.token)?;
    let expected = response_length(&mut client, &path, min_length)?;
    Ok(Box::new(move || {
        let length = client.get(&path)?;
        check_length(length, expected)
    }))
}

/// Returns the length of a response of the route, which is the same in each call.
pub(crate) fn response_length(
    client: &mut http::Client,
    path: &str,
    min_length: usize,
) -> anyhow::Result<usize> {
    let length = client.get(path)?;
    anyhow::ensure!(length >= min_length, "{path} returned {length} bytes");
    Ok(length)
}

/// Checks that a response has the expected length.
pub(crate) fn check_length(length: usize, expected: usize) -> anyhow::Result<()> {
    anyhow::ensure!(
        length == expected,
        "received {length} bytes instead of {expected}"
    );
    Ok(())
}
