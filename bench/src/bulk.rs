//! Changes to many messages at once, beside the one command that makes the same change.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http;
use crate::mailbox::{self, Mailbox};
use crate::measure::{Call, Size, Times, both};
use crate::report::Report;
use crate::routes::CLIENTS;
use crate::service::Service;

/// The most messages that one request may name.
const MESSAGES: usize = 200;

/// The most that the p50 of flagging may be of its counterpart's.
const FLAG_TARGET: f64 = 3.0;

/// How a counterpart flags.
#[derive(Clone, Copy)]
enum Told {
    /// The mail server tells of each message what flags it has then, and so which there are, as the route does.
    Each,
    /// It tells nothing of what this command did (RFC 3501, section 6.4.6), not even that a message is not there.
    Nothing,
}

/// Some messages of the inbox, of which one client of either side sets and takes a flag in turns.
struct Flagged {
    uids: Vec<u64>,
    /// The same as the mail server names them.
    set: String,
    /// Whether the flag is set. Both sides heed it: a change that changes nothing would cost less.
    seen: AtomicBool,
}

impl Flagged {
    /// `messages` are the service's numbers and the mail server's, the newest first.
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

    /// Whether the flag is to be set now, or else taken.
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
        // Others' changes are told of in either case.
        let least = match told {
            Told::Each => self.uids.len(),
            Told::Nothing => 0,
        };
        Ok(Box::new(move || {
            let mut heard = 0;
            imap.hear(if self.next() { &add } else { &remove }, |reply| {
                heard += usize::from(reply.ends_with(b")\r\n"));
            })?;
            anyhow::ensure!(heard >= least, "{heard} messages were told of");
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

/// Measures flagging: of messages that arrived one after the other, which are a single range to the mail server, and of such as stand far apart,
/// which cost it several times as much; of the former with several clients too, each with messages of its own. The route answers which messages there were, so
/// its counterpart is the command that tells that; beside the one that tells nothing it has no target.
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
    // A small inbox has fewer for each.
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

/// Measures moving there and back, each side between two folders of its own: what one moved the other would have to find again. With one client:
/// several would wait for each other at the mail server, which writes down one move of a mailbox at a time.
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

/// All messages of one folder into the other. Each folder is open on a connection of its own, and so needs no SELECT, but to be told (NOOP) of what
/// came into it on the other.
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

/// The same by the route.
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
    // The messages are there, under their numbers.
    anyhow::ensure!(
        numbers(there)? == uids,
        "what was moved is not what there is"
    );
    change(&mut http, "move", &requests[1], MESSAGES)?;
    Ok(Box::new(move || {
        change(&mut http, "move", &requests[0], MESSAGES)?;
        requests.rotate_left(1);
        Ok(())
    }))
}

/// One bulk request, which has to concern all of its messages.
fn change(http: &mut http::Client, what: &str, request: &str, count: usize) -> anyhow::Result<()> {
    let path = format!("/api/v1/mail/messages/bulk/{what}");
    let answer: Value = serde_json::from_slice(&http.change(&path, request)?)?;
    anyhow::ensure!(answer["count"] == count, "{path} was answered {answer}");
    Ok(())
}
