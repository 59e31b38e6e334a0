//! Compares the response 304 to a request with `If-None-Match` with the complete response.

use crate::mailbox::{Known, Mailbox};
use crate::measure::{Call, Workload, compare};
use crate::operations::{attachment, detail, http_call};
use crate::report::Report;
use crate::service::Service;

/// Target: maximum ratio of the p50 of the response 304 to that of the complete response.
const TARGET: f64 = 0.5;

/// Measures messages and an attachment. The complete response is the counterpart in the report.
pub(crate) fn measure(
    service: &Service,
    mailbox: &Mailbox,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let account = service.measured();
    for (name, path, target) in [
        (
            "message of 20 kB",
            detail(mailbox, Known::Newsletter),
            TARGET,
        ),
        (
            "message of 200 kB",
            detail(mailbox, Known::LongNewsletter),
            TARGET,
        ),
        ("attachment of 1 MB", attachment(mailbox), TARGET),
    ] {
        let mut complete = [http_call(service, account, path.clone(), 10_000)?];
        let mut client = service.http_of(&account.token)?;
        client.add_header("If-None-Match", &etag(service, &path)?);
        let unchanged: Call<'_> = Box::new(move || client.get_unchanged(&path));
        let [raw, route] = compare(workload, &mut complete, &mut [unchanged])?;
        report.latency(&format!("304, {name}"), &raw, &route, Some(target));
    }
    Ok(())
}

/// Returns the entity tag of a resource.
fn etag(service: &Service, path: &str) -> anyhow::Result<String> {
    let mut client = service.http_of(&service.measured().token)?;
    client.header(path, "etag")
}
