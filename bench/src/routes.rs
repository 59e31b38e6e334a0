//! Compares routes with IMAP commands that return the same data.

use crate::mailbox::Mailbox;
use crate::measure::{Workload, compare};
use crate::operations::{CLIENTS, FREQUENT, RARE};
use crate::report::Report;
use crate::sections::Sections;
use crate::service::Service;

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
