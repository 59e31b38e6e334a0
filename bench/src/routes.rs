//! Compares routes with the same data over raw IMAP.

use crate::mailbox::Mailbox;
use crate::measure::{Call, Size, both};
use crate::report::Report;
use crate::service::Service;

/// The data items that the host fetches for a listing (`host/imap/src/fetch.rs`).
pub(crate) const SUMMARY: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC SUBJECT MESSAGE-ID \
    CONTENT-TYPE CONTENT-TRANSFER-ENCODING CONTENT-DISPOSITION)]<0.65536> BODY.PEEK[TEXT]<0.4096>)";

/// A route and its counterpart.
struct Pair {
    name: &'static str,
    path: String,
    command: String,
    /// Minimum number of bytes of a valid response, raw and of the route.
    least: [usize; 2],
    /// Target: maximum ratio of the route's p50 to its counterpart's.
    target: f64,
}

/// Number of clients for the comparison of throughput, and the target: minimum share of the counterpart's throughput.
pub(crate) const CLIENTS: usize = 8;
const LEAST_SHARE: f64 = 0.5;

/// Measures all routes with one client and with several.
pub(crate) fn measure(
    service: &Service,
    mailbox: &Mailbox,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let pairs = [
        Pair {
            name: "folders",
            path: "/api/v1/mail/folders".into(),
            command: r#"LIST "" "*" RETURN (SPECIAL-USE STATUS (MESSAGES UNSEEN))"#.into(),
            least: [0, 500],
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
            least: [20_000, 10_000],
            target: 2.0,
        },
        Pair {
            name: "message of 20 kB",
            path: format!("/api/v1/mail/messages/{}", mailbox.letter.uid),
            command: format!("UID FETCH {} (BODY.PEEK[])", mailbox.letter.imap_uid),
            least: [15_000, 15_000],
            target: 2.5,
        },
        Pair {
            name: "attachment of 1 MB",
            path: format!("/api/v1/mail/messages/{}/attachments/0", mailbox.file.uid),
            command: format!("UID FETCH {} (BODY.PEEK[2])", mailbox.file.imap_uid),
            least: [1_398_100, 1_048_576],
            target: 1.5,
        },
    ];
    for pair in &pairs {
        for clients in [1, CLIENTS] {
            let mut left = raw(service, &pair.command, clients, pair.least[0])?;
            let mut right = routed(service, &pair.path, clients, pair.least[1])?;
            let [raw, route] = both(size, &mut left, &mut right)?;
            if clients == 1 {
                report.latency(pair.name, &raw, &route, Some(pair.target));
            } else {
                report.throughput(pair.name, clients, &raw, &route, Some(LEAST_SHARE));
            }
        }
    }
    Ok(())
}

fn raw<'a>(
    service: &Service,
    command: &'a str,
    clients: usize,
    least: usize,
) -> anyhow::Result<Vec<Call<'a>>> {
    let one = || -> anyhow::Result<Call<'a>> {
        let mut client = service.imap()?;
        let expected = client.run(command)?;
        anyhow::ensure!(expected >= least, "{command} returned {expected} bytes");
        Ok(Box::new(move || {
            let length = client.run(command)?;
            anyhow::ensure!(length == expected, "{length} bytes instead of {expected}");
            Ok(())
        }))
    };
    (0..clients).map(|_| one()).collect()
}

/// Creates clients of a route, each with its own connection.
pub(crate) fn routed<'a>(
    service: &Service,
    path: &'a str,
    clients: usize,
    least: usize,
) -> anyhow::Result<Vec<Call<'a>>> {
    let one = || -> anyhow::Result<Call<'a>> {
        let mut client = service.http()?;
        let expected = client.get(path)?;
        anyhow::ensure!(expected >= least, "{path} returned {expected} bytes");
        Ok(Box::new(move || {
            let length = client.get(path)?;
            anyhow::ensure!(length == expected, "{length} bytes instead of {expected}");
            Ok(())
        }))
    };
    (0..clients).map(|_| one()).collect()
}
