//! Compares routes with IMAP commands that return the same data.

use crate::mailbox::Mailbox;
use crate::measure::{Call, Workload, compare};
use crate::operations::{FREQUENT, RARE};
use crate::report::Report;
use crate::sections::Sections;
use crate::service::Service;
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
        if !sections.include_operation("route", operation) {
            continue;
        }
        let command = (operation.command)(mailbox);
        let path = (operation.path)(mailbox);
        let [min_raw, min_route] = operation.min_length;
        for clients in [1, CLIENTS] {
            let mut left = (0..clients)
                .map(|_| imap_call(service.imap()?, &command, min_raw))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let mut right = http_calls(service, &path, clients, min_route)?;
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

/// Returns a call of the command.
pub(crate) fn imap_call(
    mut client: imap::Client,
    command: &str,
    min_length: usize,
) -> anyhow::Result<Call<'_>> {
    let expected = client.run(command)?;
    anyhow::ensure!(
        expected >= min_length,
        "{command} returned {expected} bytes"
    );
    Ok(Box::new(move || {
        let length = client.run(command)?;
        check_length(length, expected)
    }))
}

/// Returns a call of the route for each client. Each client has its own connection.
pub(crate) fn http_calls<'a>(
    service: &Service,
    path: &'a str,
    clients: usize,
    min_length: usize,
) -> anyhow::Result<Vec<Call<'a>>> {
    (0..clients)
        .map(|_| -> anyhow::Result<Call<'a>> {
            let mut client = service.http()?;
            let expected = response_length(&mut client, path, min_length)?;
            Ok(Box::new(move || {
                let length = client.get(path)?;
                check_length(length, expected)
            }))
        })
        .collect()
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
