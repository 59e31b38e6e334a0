//! Compares bulk changes with the IMAP commands that make the same changes.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http;
use crate::mailbox::{self, Mailbox};
use crate::measure::{self, Call, Timings, Workload};
use crate::operations::CLIENTS;
use crate::report::Report;
use crate::service::{Account, Service};

/// Maximum number of messages in one request.
const MESSAGES: usize = 200;

/// Target for flagging: maximum ratio of the route's p50 to its counterpart's.
const FLAG_TARGET: f64 = 2.2;

/// The form of the IMAP command that sets flags.
#[derive(Clone, Copy)]
pub(crate) enum StoreForm {
    /// The mail server reports the new flags of each message that exists, as the route does.
    Reporting,
    /// `.SILENT`: the mail server does not report the changes of this command (RFC 3501, section
    /// 6.4.6).
    Silent,
}

/// Messages of the inbox. A client of each side alternately sets and removes their flag `\Seen`.
pub(crate) struct FlagChange {
    uids: Vec<u64>,
    /// The same messages as an IMAP sequence set of UIDs.
    set: String,
    /// Whether the flag is set. Both sides share this state, because a change without an effect
    /// would take less time.
    seen: AtomicBool,
}

impl FlagChange {
    /// `messages` are pairs of the service's `uid` and the IMAP UID, newest first.
    pub(crate) fn of(
        service: &Service,
        account: &Account,
        messages: &[(u64, usize)],
    ) -> anyhow::Result<Self> {
        let (uids, imap_uids): (Vec<u64>, Vec<usize>) = messages.iter().copied().unzip();
        let (first, last) = (imap_uids[imap_uids.len() - 1], imap_uids[0]);
        let set = if last - first < imap_uids.len() {
            format!("{first}:{last}")
        } else {
            let ascending: Vec<_> = imap_uids.iter().rev().map(ToString::to_string).collect();
            ascending.join(",")
        };
        let change = Self {
            uids,
            set,
            seen: AtomicBool::new(false),
        };
        service
            .imap_of(account)?
            .run(&change.command(StoreForm::Silent, false))?;
        Ok(change)
    }

    /// Returns whether the next change sets the flag or removes it.
    fn next(&self) -> bool {
        !self.seen.fetch_xor(true, Ordering::Relaxed)
    }

    fn command(&self, form: StoreForm, add: bool) -> String {
        let sign = if add { '+' } else { '-' };
        let item = match form {
            StoreForm::Reporting => "FLAGS",
            StoreForm::Silent => "FLAGS.SILENT",
        };
        format!(r"UID STORE {} {sign}{item} (\Seen)", self.set)
    }

    fn request(&self, add: bool) -> String {
        let action = if add { "add" } else { "remove" };
        json!({ "uids": self.uids, "flags": ["\\Seen"], "action": action }).to_string()
    }

    /// Returns a call of the IMAP command.
    pub(crate) fn imap_call<'a>(
        &'a self,
        service: &Service,
        account: &Account,
        form: StoreForm,
    ) -> anyhow::Result<Call<'a>> {
        let mut imap = service.imap_of(account)?;
        let [remove, add] = [false, true].map(|add| self.command(form, add));
        // Both forms can also report changes of other clients.
        let min_reported = match form {
            StoreForm::Reporting => self.uids.len(),
            StoreForm::Silent => 0,
        };
        Ok(Box::new(move || {
            let mut reported = 0;
            imap.run_with(if self.next() { &add } else { &remove }, |response| {
                reported += usize::from(response.ends_with(b")\r\n"));
            })?;
            anyhow::ensure!(
                reported >= min_reported,
                "the mail server reported {reported} messages"
            );
            Ok(())
        }))
    }

    /// Returns a call of the route.
    pub(crate) fn http_call<'a>(
        &'a self,
        service: &Service,
        account: &Account,
    ) -> anyhow::Result<Call<'a>> {
        let mut http = service.http_of(&account.token)?;
        let [remove, add] = [false, true].map(|add| self.request(add));
        post_bulk(&mut http, "flag", &add, self.uids.len())?;
        self.seen.store(true, Ordering::Relaxed);
        let mut imap = service.imap_of(account)?;
        let seen = imap.search(&format!("UID {} SEEN", self.set))?;
        anyhow::ensure!(
            seen.len() == self.uids.len(),
            "the route flagged {} of {} messages",
            seen.len(),
            self.uids.len()
        );
        Ok(Box::new(move || {
            let request = if self.next() { &add } else { &remove };
            post_bulk(&mut http, "flag", request, self.uids.len())
        }))
    }
}

/// Measures changes of flags: of consecutive messages, which the IMAP command names as one range,
/// of scattered messages, and with several clients that change different messages. The route
/// returns which messages exist, so only the comparison with the reporting command has a target.
pub(crate) fn flag(
    service: &Service,
    mailbox: &Mailbox,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let all: Vec<(u64, usize)> =
        mailbox::newest_uids(service, service.measured(), "INBOX", mailbox.messages)?
            .into_iter()
            .zip((1..=mailbox.messages).rev())
            .collect();
    let consecutive = &all[..MESSAGES];
    let scattered: Vec<_> = all
        .iter()
        .copied()
        .step_by(all.len() / MESSAGES)
        .take(MESSAGES)
        .collect();
    for (order, messages) in [
        ("consecutive messages", consecutive),
        ("scattered messages", &scattered),
    ] {
        for (form, suffix, target) in [
            (StoreForm::Reporting, "", Some(FLAG_TARGET)),
            (StoreForm::Silent, ", .SILENT", None),
        ] {
            let changes = [FlagChange::of(service, service.measured(), messages)?];
            let [raw, route] = compare(service, workload, form, &changes)?;
            let name = format!("bulk flag, {MESSAGES} {order}{suffix}");
            report.latency(&name, &raw, &route, target);
        }
    }
    // With a small inbox, each client has fewer messages.
    let each = MESSAGES.min(all.len() / CLIENTS);
    let changes = all
        .chunks(each)
        .take(CLIENTS)
        .map(|messages| FlagChange::of(service, service.measured(), messages))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let [raw, route] = compare(service, workload, StoreForm::Reporting, &changes)?;
    let name = format!("bulk flag, {each} messages");
    report.throughput(&name, CLIENTS, &raw, &route, None);
    Ok(())
}

fn compare(
    service: &Service,
    workload: &Workload,
    form: StoreForm,
    all: &[FlagChange],
) -> anyhow::Result<[Timings; 2]> {
    let mut left = all
        .iter()
        .map(|one| one.imap_call(service, service.measured(), form))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut right = all
        .iter()
        .map(|one| one.http_call(service, service.measured()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    measure::compare(workload, &mut left, &mut right)
}

/// Measures moving messages back and forth. Each side has its own two folders, because otherwise
/// the service would have to find the messages that the other side moved. There is only one client,
/// because the mail server executes one move of a mailbox at a time.
pub(crate) fn move_messages(
    service: &Service,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let imap_folders = ["ImapSource", "ImapTarget"];
    let http_folders = ["HttpSource", "HttpTarget"];
    for folder in [imap_folders[0], http_folders[0]] {
        mailbox::create_folder(service, folder, MESSAGES)?;
    }
    for folder in [imap_folders[1], http_folders[1]] {
        mailbox::create_folder(service, folder, 0)?;
    }
    let mut left = [imap_move_call(service, imap_folders)?];
    let mut right = [http_move_call(service, http_folders)?];
    let [raw, route] = measure::compare(workload, &mut left, &mut right)?;
    report.latency(
        &format!("bulk move, {MESSAGES} messages"),
        &raw,
        &route,
        None,
    );
    Ok(())
}

/// Moves all messages of one folder to the other with IMAP. Each folder is selected on its own
/// connection. A NOOP makes the messages visible that the other connection moved.
fn imap_move_call(service: &Service, [source, target]: [&str; 2]) -> anyhow::Result<Call<'static>> {
    let mut directions = [(source, target), (target, source)]
        .map(|(from, to)| -> anyhow::Result<_> {
            let mut imap = service.imap()?;
            imap.run(&format!("SELECT {from}"))?;
            Ok((imap, format!("UID MOVE 1:* {to}")))
        })
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Box::new(move || {
        let (imap, command) = &mut directions[0];
        imap.run("NOOP")?;
        let mut expunged = 0;
        imap.run_with(command, |response| {
            expunged += usize::from(response.ends_with(b" EXPUNGE\r\n"));
        })?;
        anyhow::ensure!(
            expunged == MESSAGES,
            "{expunged} messages were moved instead of {MESSAGES}"
        );
        directions.rotate_left(1);
        Ok(())
    }))
}

/// Moves the messages with the route.
fn http_move_call(service: &Service, [source, target]: [&str; 2]) -> anyhow::Result<Call<'static>> {
    let uids_in = |folder| -> anyhow::Result<Vec<u64>> {
        let mut uids = mailbox::newest_uids(service, service.measured(), folder, MESSAGES)?;
        uids.sort_unstable();
        Ok(uids)
    };
    let uids = uids_in(source)?;
    let mut requests = [(source, target), (target, source)]
        .map(|(from, to)| json!({ "uids": uids, "folder": from, "destination": to }).to_string());
    let mut http = service.http()?;
    post_bulk(&mut http, "move", &requests[0], MESSAGES)?;
    // The messages exist in the destination under the same `uids`.
    anyhow::ensure!(
        uids_in(target)? == uids,
        "the destination does not have the moved messages"
    );
    post_bulk(&mut http, "move", &requests[1], MESSAGES)?;
    Ok(Box::new(move || {
        post_bulk(&mut http, "move", &requests[0], MESSAGES)?;
        requests.rotate_left(1);
        Ok(())
    }))
}

/// Sends a bulk request and checks that it changed `count` messages.
fn post_bulk(
    http: &mut http::Client,
    action: &str,
    request: &str,
    count: usize,
) -> anyhow::Result<()> {
    let path = format!("/api/v1/mail/messages/bulk/{action}");
    let response: Value = serde_json::from_slice(&http.post_ok(&path, request)?)?;
    anyhow::ensure!(
        response["count"] == count,
        "{path}: unexpected response {response}"
    );
    Ok(())
}
