//! Compares routes with IMAP commands that return the same data.

use crate::mailbox::Mailbox;
use crate::measure::{Call, Workload, compare};
use crate::report::Report;
use crate::service::Service;

/// The data items that the host fetches for a listing (`host/imap/src/fetch.rs`).
pub(crate) const SUMMARY: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC SUBJECT MESSAGE-ID \
    CONTENT-TYPE CONTENT-TRANSFER-ENCODING CONTENT-DISPOSITION)]<0.65536> BODY.PEEK[TEXT]<0.4096>)";

/// A route, and the IMAP command that returns the same data.
struct Pair {
    name: &'static str,
    path: String,
    command: String,
    /// Minimum number of bytes of a valid response, of the command and of the route.
    min_length: [usize; 2],
    /// Target: maximum ratio of the route's p50 to its counterpart's.
    target: f64,
}

/// Number of clients in the comparison of throughput.
pub(crate) const CLIENTS: usize = 8;

/// Target: minimum ratio of the route's throughput to its counterpart's.
const MIN_THROUGHPUT: f64 = 0.5;

/// Measures all routes with one client and with several.
pub(crate) fn measure(
    service: &Service,
    mailbox: &Mailbox,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let pairs = [
        Pair {
            name: "folders",
            path: "/api/v1/mail/folders".into(),
            command: r#"LIST "" "*" RETURN (SPECIAL-USE STATUS (MESSAGES UNSEEN))"#.into(),
            min_length: [0, 500],
            target: 2.0,
        },
        Pair {
            name: "listing of 50",
            path: "/api/v1/mail/folders/INBOX/messages?limit=50".into(),
            command: format!(
                "FETCH {}:{} {SUMMARY}",
                mailbox.messages - 49,
                mailbox.messages
            ),
            min_length: [20_000, 10_000],
            target: 2.0,
        },
        Pair {
            name: "message of 20 kB",
            path: format!("/api/v1/mail/messages/{}", mailbox.newsletter.uid),
            command: format!("UID FETCH {} (BODY.PEEK[])", mailbox.newsletter.imap_uid),
            min_length: [15_000, 15_000],
            target: 2.5,
        },
        Pair {
            name: "attachment of 1 MB",
            path: format!(
                "/api/v1/mail/messages/{}/attachments/0",
                mailbox.small_attachment.uid
            ),
            command: format!(
                "UID FETCH {} (BODY.PEEK[2])",
                mailbox.small_attachment.imap_uid
            ),
            min_length: [1_398_100, 1_048_576],
            target: 1.5,
        },
    ];
    for pair in &pairs {
        for clients in [1, CLIENTS] {
            let mut left = imap_calls(service, &pair.command, clients, pair.min_length[0])?;
            let mut right = http_calls(service, &pair.path, clients, pair.min_length[1])?;
            let [raw, route] = compare(workload, &mut left, &mut right)?;
            if clients == 1 {
                report.latency(pair.name, &raw, &route, Some(pair.target));
            } else {
                report.throughput(pair.name, clients, &raw, &route, Some(MIN_THROUGHPUT));
            }
        }
    }
    Ok(())
}

fn imap_calls<'a>(
    service: &Service,
    command: &'a str,
    clients: usize,
    min_length: usize,
) -> anyhow::Result<Vec<Call<'a>>> {
    let connect = || -> anyhow::Result<Call<'a>> {
        let mut client = service.imap()?;
        let expected = client.run(command)?;
        anyhow::ensure!(
            expected >= min_length,
            "{command} returned {expected} bytes"
        );
        Ok(Box::new(move || {
            let length = client.run(command)?;
            anyhow::ensure!(
                length == expected,
                "received {length} bytes instead of {expected}"
            );
            Ok(())
        }))
    };
    (0..clients).map(|_| connect()).collect()
}

/// Returns a call of the route for each client. Each client has its own connection.
pub(crate) fn http_calls<'a>(
    service: &Service,
    path: &'a str,
    clients: usize,
    min_length: usize,
) -> anyhow::Result<Vec<Call<'a>>> {
    let connect = || -> anyhow::Result<Call<'a>> {
        let mut client = service.http()?;
        let expected = client.get(path)?;
        anyhow::ensure!(expected >= min_length, "{path} returned {expected} bytes");
        Ok(Box::new(move || {
            let length = client.get(path)?;
            anyhow::ensure!(
                length == expected,
                "received {length} bytes instead of {expected}"
            );
            Ok(())
        }))
    };
    (0..clients).map(|_| connect()).collect()
}
