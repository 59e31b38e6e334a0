//! Benchmarks of bulk changes, compared with the one IMAP command that makes the same change.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http;
use crate::mailbox::{self, Mailbox};
use crate::measure::{Call, Size, Times, both};
use crate::report::Report;
use crate::routes::CLIENTS;
use crate::service::Service;

/// Maximum number of messages in one request.
const MESSAGES: usize = 200;

/// Target for flagging: maximum ratio of the route's p50 to its counterpart's.
const FLAG_TARGET: f64 = 3.0;

/// The form of the IMAP command that sets flags.
#[derive(Clone, Copy)]
enum Told {
    /// The mail server reports the new flags of each message, and so which messages exist, as the route does.
    Each,
    /// The mail server reports nothing about the command's own changes (RFC 3501, section 6.4.6), not even that a message does not exist.
    Nothing,
}

/// Messages of the inbox whose flag one client of either side sets and removes in turns.
struct Flagged {
    uids: Vec<u64>,
    /// The same messages as an IMAP sequence set of UIDs.
    set: String,
    /// Whether the flag is set. Both sides use it, because a change without an effect would cost less.
    seen: AtomicBool,
}

impl Flagged {
    /// `messages` are pairs of the service's `uid` and the IMAP UID, newest first.
    fn of(service: &Service, messages: &[(u64, usize)]) -> anyhow::Result<Self> {
        let (uids, imap_uids): (Vec<u64>, Vec<usize>) = messages.iter().copied().unzip();
        let (first, last) = (imap_uids[imap_uids.len() - 1], imap_uids[0]);
        let set = if last - first < imap_uids.len() {
            format!("{first}:{last}")
        } else {
            let ascending: Vec<_> = imap_uids.iter().rev().map(ToString::to_string).collect();
            ascending.join(",")
        };
        let flagged = Self {
            uids,
            set,
            seen: AtomicBool::new(false),
        };
        service
            .imap()?
            .run(&flagged.command(Told::Nothing, false))?;
        Ok(flagged)
    }

    /// Returns whether the next change sets the flag or removes it.
    fn next(&self) -> bool {
        !self.seen.fetch_xor(true, Ordering::Relaxed)
    }

    fn command(&self, told: Told, add: bool) -> String {
        let sign = if add { '+' } else { '-' };
        let item = match told {
            Told::Each => "FLAGS",
            Told::Nothing => "FLAGS.SILENT",
        };
        format!(r"UID STORE {} {sign}{item} (\Seen)", self.set)
    }

    fn request(&self, add: bool) -> String {
        let action = if add { "add" } else { "remove" };
        json!({ "uids": self.uids, "flags": ["\\Seen"], "action": action }).to_string()
    }

    fn raw<'a>(&'a self, service: &Service, told: Told) -> anyhow::Result<Call<'a>> {
        let mut imap = service.imap()?;
        let [remove, add] = [false, true].map(|add| self.command(told, add));
        // The mail server reports changes of other clients in both forms.
        let least = match told {
            Told::Each => self.uids.len(),
            Told::Nothing => 0,
        };
        Ok(Box::new(move || {
            let mut heard = 0;
            imap.hear(if self.next() { &add } else { &remove }, |reply| {
                heard += usize::from(reply.ends_with(b")\r\n"));
            })?;
            anyhow::ensure!(heard >= least, "the mail server reported {heard} messages");
            Ok(())
        }))
    }

    fn routed<'a>(&'a self, service: &Service) -> anyhow::Result<Call<'a>> {
        let mut http = service.http()?;
        let [remove, add] = [false, true].map(|add| self.request(add));
        change(&mut http, "flag", &add, self.uids.len())?;
        self.seen.store(true, Ordering::Relaxed);
        let seen = service.imap()?.search(&format!("UID {} SEEN", self.set))?;
        anyhow::ensure!(
            seen.len() == self.uids.len(),
            "flagging {} messages flagged {}",
            self.uids.len(),
            seen.len()
        );
        Ok(Box::new(move || {
            let request = if self.next() { &add } else { &remove };
            change(&mut http, "flag", request, self.uids.len())
        }))
    }
}

/// Measures flagging. Consecutive messages are a single range for the mail server; scattered messages cost it several times as much.
/// Consecutive messages are also flagged by several clients, each with its own messages. The route returns which messages exist, so its
/// counterpart is the command that reports each message. The comparison with the silent command has no target.
pub(crate) fn flag(
    service: &Service,
    mailbox: &Mailbox,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let all: Vec<(u64, usize)> = mailbox::newest(service, "INBOX", mailbox.messages)?
        .into_iter()
        .zip((1..=mailbox.messages).rev())
        .collect();
    let row = &all[..MESSAGES];
    let scattered: Vec<_> = all
        .iter()
        .copied()
        .step_by(all.len() / MESSAGES)
        .take(MESSAGES)
        .collect();
    for (how, messages) in [("in a row", row), ("scattered", &scattered)] {
        for (told, aside, target) in [
            (Told::Each, "", Some(FLAG_TARGET)),
            (Told::Nothing, ", STORE silent", None),
        ] {
            let flagged = [Flagged::of(service, messages)?];
            let [raw, route] = compare(service, size, told, &flagged)?;
            let name = format!("bulk flag of {MESSAGES} {how}{aside}");
            report.latency(&name, &raw, &route, target);
        }
    }
    // With a small inbox, each client has fewer messages.
    let each = MESSAGES.min(all.len() / CLIENTS);
    let own = all
        .chunks(each)
        .take(CLIENTS)
        .map(|messages| Flagged::of(service, messages))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let [raw, route] = compare(service, size, Told::Each, &own)?;
    let name = format!("bulk flag of {each}");
    report.throughput(&name, CLIENTS, &raw, &route, None);
    Ok(())
}

fn compare(
    service: &Service,
    size: &Size,
    told: Told,
    all: &[Flagged],
) -> anyhow::Result<[Times; 2]> {
    let mut left = all
        .iter()
        .map(|one| one.raw(service, told))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut right = all
        .iter()
        .map(|one| one.routed(service))
        .collect::<anyhow::Result<Vec<_>>>()?;
    both(size, &mut left, &mut right)
}

/// Measures moving messages back and forth. Each side has its own two folders, because otherwise one side would have to look up the
/// messages that the other moved. There is only one client: several would wait for each other, because the mail server executes one move of
/// a mailbox at a time.
pub(crate) fn relocate(service: &Service, size: &Size, report: &mut Report) -> anyhow::Result<()> {
    let (raw, routed) = (["Here", "There"], ["Inwards", "Outwards"]);
    for folder in [raw[0], routed[0]] {
        mailbox::folder(service, folder, MESSAGES)?;
    }
    for folder in [raw[1], routed[1]] {
        mailbox::folder(service, folder, 0)?;
    }
    let mut left = [moved(service, raw)?];
    let mut right = [moved_by_route(service, routed)?];
    let [raw, route] = both(size, &mut left, &mut right)?;
    report.latency(&format!("bulk move of {MESSAGES}"), &raw, &route, None);
    Ok(())
}

/// Moves all messages of one folder to the other. Each folder is open on its own connection, so no SELECT is needed, but a NOOP is needed
/// to see the messages that arrived over the other connection.
fn moved(service: &Service, [here, there]: [&str; 2]) -> anyhow::Result<Call<'static>> {
    let mut ways = [(here, there), (there, here)]
        .map(|(from, to)| -> anyhow::Result<_> {
            let mut imap = service.imap()?;
            imap.run(&format!("SELECT {from}"))?;
            Ok((imap, format!("UID MOVE 1:* {to}")))
        })
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Box::new(move || {
        let (imap, command) = &mut ways[0];
        imap.run("NOOP")?;
        let mut gone = 0;
        imap.hear(command, |reply| {
            gone += usize::from(reply.ends_with(b" EXPUNGE\r\n"));
        })?;
        anyhow::ensure!(gone == MESSAGES, "{gone} messages were moved");
        ways.rotate_left(1);
        Ok(())
    }))
}

/// Moves the same messages with the route.
fn moved_by_route(service: &Service, [here, there]: [&str; 2]) -> anyhow::Result<Call<'static>> {
    let numbers = |folder| -> anyhow::Result<Vec<u64>> {
        let mut uids = mailbox::newest(service, folder, MESSAGES)?;
        uids.sort_unstable();
        Ok(uids)
    };
    let uids = numbers(here)?;
    let mut requests = [(here, there), (there, here)]
        .map(|(from, to)| json!({ "uids": uids, "folder": from, "destination": to }).to_string());
    let mut http = service.http()?;
    change(&mut http, "move", &requests[0], MESSAGES)?;
    // The messages exist in the destination under the same `uids`.
    anyhow::ensure!(
        numbers(there)? == uids,
        "the destination does not have the moved messages"
    );
    change(&mut http, "move", &requests[1], MESSAGES)?;
    Ok(Box::new(move || {
        change(&mut http, "move", &requests[0], MESSAGES)?;
        requests.rotate_left(1);
        Ok(())
    }))
}

/// Sends a bulk request and checks that it changed `count` messages.
fn change(http: &mut http::Client, what: &str, request: &str, count: usize) -> anyhow::Result<()> {
    let path = format!("/api/v1/mail/messages/bulk/{what}");
    let answer: Value = serde_json::from_slice(&http.change(&path, request)?)?;
    anyhow::ensure!(
        answer["count"] == count,
        "{path}: unexpected response {answer}"
    );
    Ok(())
}
