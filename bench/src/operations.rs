//! The compared operations: routes that read mail, and the IMAP commands that return the same data.

use crate::mailbox::{Known, Mailbox};
use crate::measure::Call;
use crate::service::{Account, Service};
use crate::{http, imap};

/// Number of clients in the comparison of throughput.
pub(crate) const CLIENTS: usize = 8;

/// The data items that the host fetches for a listing (`host/imap/src/fetch.rs`).
pub(crate) const SUMMARY: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC SUBJECT MESSAGE-ID \
    CONTENT-TYPE CONTENT-TRANSFER-ENCODING CONTENT-DISPOSITION REFERENCES IN-REPLY-TO)]<0.65536> BODY.PEEK[TEXT]<0.4096>)";

/// A route, and the IMAP command that returns the same data.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// The path of the route.
    pub(crate) path: fn(&Mailbox) -> String,
    /// The IMAP command.
    pub(crate) command: fn(&Mailbox) -> String,
    /// Minimum number of bytes of a valid response, of the command and of the route.
    pub(crate) min_length: [usize; 2],
    /// Target for one client: maximum ratio of the route's p50 to its counterpart's.
    pub(crate) max_latency: Option<f64>,
    /// Target for eight clients of one account: minimum ratio of the route's throughput to its
    /// counterpart's.
    pub(crate) min_throughput: Option<f64>,
}

impl Operation {
    /// Returns a call of the route on a new connection.
    pub(crate) fn http_call(
        &self,
        service: &Service,
        account: &Account,
        mailbox: &Mailbox,
    ) -> anyhow::Result<Call<'static>> {
        http_call(service, account, (self.path)(mailbox), self.min_length[1])
    }

    /// Returns a call of the command on a new connection.
    pub(crate) fn imap_call(
        &self,
        service: &Service,
        account: &Account,
        mailbox: &Mailbox,
    ) -> anyhow::Result<Call<'static>> {
        let client = service.imap_of(account)?;
        imap_call(client, (self.command)(mailbox), self.min_length[0])
    }
}

/// The operations that are also measured with many clients. All mailboxes have their messages.
pub(crate) static FREQUENT: [Operation; 4] = [
    Operation {
        name: "folders",
        path: |_| "/api/v1/mail/folders".into(),
        command: |_| r#"LIST "" "*" RETURN (SPECIAL-USE STATUS (MESSAGES UNSEEN))"#.into(),
        min_length: [0, 500],
        max_latency: Some(1.5),
        min_throughput: Some(0.7),
    },
    Operation {
        name: "listing of 50",
        path: |_| "/api/v1/mail/folders/INBOX/messages?limit=50".into(),
        command: |mailbox| {
            let newest = mailbox.messages;
            format!("FETCH {}:{newest} {SUMMARY}", newest - 49)
        },
        min_length: [20_000, 10_000],
        max_latency: Some(0.6),
        min_throughput: Some(1.0),
    },
    Operation {
        name: "message of 20 kB",
        path: |mailbox| detail(mailbox, Known::Newsletter),
        command: |mailbox| fetch(mailbox, Known::Newsletter, "BODY.PEEK[]"),
        min_length: [15_000, 15_000],
        max_latency: Some(3.5),
        min_throughput: Some(0.4),
    },
    Operation {
        name: "attachment of 1 MB",
        path: attachment,
        // The client would also have to decode the base64 text.
        command: |mailbox| fetch(mailbox, Known::SmallAttachment, "BODY.PEEK[2]"),
        min_length: [1_398_100, 1_048_576],
        max_latency: Some(1.0),
        min_throughput: Some(0.9),
    },
];

/// The operations that are only measured with a few clients of the measured account.
pub(crate) static RARE: [Operation; 6] = [
    Operation {
        name: "attachment of 1 MB, BINARY",
        path: attachment,
        // The mail server decodes the attachment (RFC 3516).
        command: |mailbox| fetch(mailbox, Known::SmallAttachment, "BINARY.PEEK[2]"),
        min_length: [1_048_576, 1_048_576],
        max_latency: None,
        min_throughput: None,
    },
    Operation {
        name: "message of 200 kB",
        path: |mailbox| detail(mailbox, Known::LongNewsletter),
        command: |mailbox| fetch(mailbox, Known::LongNewsletter, "BODY.PEEK[]"),
        min_length: [150_000, 150_000],
        max_latency: Some(2.5),
        min_throughput: None,
    },
    Operation {
        name: "message of 5 MB",
        path: |mailbox| detail(mailbox, Known::MediumAttachment),
        // A client does not need the attachment to show the message: it fetches the structure, the
        // header and the text.
        command: |mailbox| {
            let items = "FLAGS BODYSTRUCTURE BODY.PEEK[HEADER] BODY.PEEK[1]";
            fetch(mailbox, Known::MediumAttachment, items)
        },
        min_length: [1_500, 1_000],
        max_latency: None,
        min_throughput: None,
    },
    Operation {
        name: "message with 1,000 recipients",
        path: |mailbox| detail(mailbox, Known::ManyRecipients),
        command: |mailbox| fetch(mailbox, Known::ManyRecipients, "BODY.PEEK[]"),
        min_length: [50_000, 50_000],
        max_latency: None,
        min_throughput: None,
    },
    Operation {
        name: "stored message of 1 MB",
        path: |mailbox| detail(mailbox, Known::SmallAttachment) + "/raw",
        command: |mailbox| fetch(mailbox, Known::SmallAttachment, "BODY.PEEK[]"),
        min_length: [1_398_100, 1_398_100],
        max_latency: None,
        min_throughput: None,
    },
    Operation {
        name: "message with 200 parts",
        path: |mailbox| detail(mailbox, Known::ManyParts),
        // The whole message, because it is small: each part has 500 bytes.
        command: |mailbox| fetch(mailbox, Known::ManyParts, "BODY.PEEK[]"),
        min_length: [100_000, 10_000],
        max_latency: None,
        min_throughput: None,
    },
];

/// Returns the path of a message.
pub(crate) fn detail(mailbox: &Mailbox, message: Known) -> String {
    format!("/api/v1/mail/messages/{}", mailbox.known(message).uid)
}

/// Returns the path of the attachment of [`Known::SmallAttachment`].
pub(crate) fn attachment(mailbox: &Mailbox) -> String {
    detail(mailbox, Known::SmallAttachment) + "/attachments/0"
}

fn fetch(mailbox: &Mailbox, message: Known, items: &str) -> String {
    format!("UID FETCH {} ({items})", mailbox.known(message).imap_uid)
}

/// Returns a call of the command. Each response must have the same length.
fn imap_call(
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
