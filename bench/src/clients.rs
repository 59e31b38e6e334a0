//! Compares the frequent operations with their counterparts, with 1, 8 and 64 clients. A client has
//! its own connection, and usually its own account.

mod page;

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Runtime;

use crate::agent::Agents;
use crate::bulk::{FlagChange, StoreForm};
use crate::http;
use crate::mailbox::{self, Known, Mailbox};
use crate::measure::{Call, Timings, Workload, compare_with_settle, measure_alone};
use crate::operations::{FREQUENT, Operation};
use crate::report::Report;
use crate::search;
use crate::sections::{CASES, Sections};
use crate::send::Delivery;
use crate::service::{Account, Service, Tokens};

/// Numbers of clients. The mail server has a process for each connection, and the kernel limits the
/// inotify instances of these processes together (usually 128). Therefore this program has at most
/// 64 connections at a time, in addition to those of the service.
const CLIENTS: [usize; 3] = [1, 8, MANY_CLIENTS];
const MANY_CLIENTS: usize = 64;

/// Number of clients of one account without a counterpart, because the mail server does not allow
/// as many connections of one account.
const MOST_CLIENTS: usize = 256;

/// Target: maximum ratio of the p99 to the p50 with [`MANY_CLIENTS`] clients.
const MAX_SPREAD: f64 = 8.0;

/// Targets: maximum p99 of a refresh of tokens in milliseconds, for numbers of clients.
const MAX_REFRESH: [(usize, f64); 2] = [(8, 10.0), (MANY_CLIENTS, 40.0)];

/// Target: maximum ratio of the p99 of sending to that of SMTP, with [`MANY_CLIENTS`] clients.
const MAX_SEND_TAIL: f64 = 2.0;

/// Number of messages in the inbox of each account.
const MESSAGES: usize = 110;

/// Number of messages that a client flags with one request.
const FLAGGED: usize = 20;

/// Maximum number of intervals per side. The intervals are longer than those of other benchmarks,
/// because a call takes longer.
const MAX_ROUNDS: usize = 3;

/// An account and its mailbox.
struct Owner {
    name: String,
    account: Account,
    mailbox: Mailbox,
    flags: FlagChange,
}

/// Opens a connection, and returns a call on it.
type Open<'a> = Box<dyn Fn(&'a Owner) -> anyhow::Result<Call<'a>> + Sync + 'a>;

/// A measured operation.
struct Case<'a> {
    name: &'static str,
    /// Prefix of the names of the plots.
    file: &'static str,
    /// What is measured.
    text: &'static str,
    route: Open<'a>,
    counterpart: Option<(&'static str, Open<'a>)>,
    /// Whether the mail server still works after a call.
    is_delivered: bool,
}

/// The figures of a case with a number of clients.
struct Figures {
    clients: usize,
    counterpart: Option<Timings>,
    route: Timings,
}

/// Measures the selected operations.
pub(crate) fn measure(
    service: &Service,
    delivery: &Delivery,
    runtime: &Runtime,
    workload: &Workload,
    sections: &Sections,
    report: &mut Report,
) -> anyhow::Result<()> {
    if !CASES.iter().any(|name| sections.include_clients(name)) {
        return Ok(());
    }
    let owners = (0..workload.accounts)
        .map(|number| -> anyhow::Result<Owner> {
            let name = format!("owner{number}");
            let account = runtime.block_on(service.create_account(&name))?;
            create_owner(service, name, account)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let workload = Workload {
        rounds: workload.rounds.min(MAX_ROUNDS),
        interval: workload.interval * 2,
        ..*workload
    };
    let agents = Agents::register(service, runtime)?;
    report.page.section(
        "Operations",
        "Each operation with 1, 8 and 64 clients. Each client has an account, a session and a connection of its own, and starts a request when the response to \
         its last request has arrived. Each inbox has 110 messages. The service and its counterpart run alternately.",
    );
    // With few accounts, there are fewer clients.
    let mut numbers = CLIENTS.map(|clients| clients.min(owners.len())).to_vec();
    numbers.dedup();
    for case in cases(service, delivery, &agents) {
        if sections.include_clients(case.name) {
            let mut figures = Vec::new();
            for clients in &numbers {
                figures.push(compare(&case, &owners, *clients, &workload, delivery)?);
            }
            add_rows(&case, &figures, report);
            page::show(&case, &figures, report)?;
        }
    }
    for operation in FREQUENT
        .iter()
        .filter(|operation| sections.include_clients(operation.name))
    {
        let mut case = reading(service, operation, "", "");
        let one = compare(&case, &owners[..1], MANY_CLIENTS, &workload, delivery)?;
        case.counterpart = None;
        let most = compare(&case, &owners[..1], MOST_CLIENTS, &workload, delivery)?;
        let name = format!("{}, one account", case.name);
        if let Some(raw) = &one.counterpart {
            report.throughput(&name, MANY_CLIENTS, raw, &one.route, None);
        }
        report.spread(&name, MANY_CLIENTS, &one.route, MAX_SPREAD);
        report.failures(&name, MOST_CLIENTS, &most.route);
    }
    Ok(())
}

fn create_owner(service: &Service, name: String, account: Account) -> anyhow::Result<Owner> {
    let known = [Known::Newsletter, Known::SmallAttachment];
    let mailbox = mailbox::fill(service, &account, MESSAGES, &known)?;
    let newest = mailbox::newest_uids(service, &account, "INBOX", FLAGGED)?;
    let messages: Vec<_> = newest.into_iter().zip((1..=MESSAGES).rev()).collect();
    let flags = FlagChange::of(service, &account, &messages)?;
    Ok(Owner {
        name,
        account,
        mailbox,
        flags,
    })
}

/// Returns the operations in the order of [`CASES`].
fn cases<'a>(
    service: &'a Service,
    delivery: &'a Delivery,
    agents: &'a Agents<'_>,
) -> Vec<Case<'a>> {
    let [folders, listing, message, attachment] = &FREQUENT;
    vec![
        reading(
            service,
            folders,
            "folders",
            "`GET /api/v1/mail/folders`, next to the IMAP command LIST with the numbers of messages.",
        ),
        reading(
            service,
            listing,
            "listing",
            "The newest 50 messages with their senders, subjects and previews, next to the IMAP command FETCH for the same data.",
        ),
        reading(
            service,
            message,
            "message",
            "One message with 20 kB of text and HTML as JSON, next to the IMAP command FETCH for the whole message. The service parses the message and \
             cleans its HTML; the IMAP client discards it.",
        ),
        reading(
            service,
            attachment,
            "attachment",
            "A download of 1 MB, next to the IMAP command FETCH for the same part, which is a third larger because it is in base64.",
        ),
        Case {
            name: CASES[4],
            file: "search",
            text: "The newest 20 messages that contain a frequent word, next to the IMAP commands SEARCH and FETCH. The service searches in its index, and \
                   Dovecot in all messages.",
            route: Box::new(|owner| search::http_call(service, &owner.account)),
            counterpart: Some((
                "IMAP",
                Box::new(|owner| search::imap_call(service, &owner.account)),
            )),
            is_delivered: false,
        },
        Case {
            name: CASES[5],
            file: "flag",
            text: "One request sets or removes the flag `\\Seen` of 20 messages, next to the IMAP command STORE.",
            route: Box::new(|owner| owner.flags.http_call(service, &owner.account)),
            counterpart: Some((
                "IMAP",
                Box::new(|owner| {
                    let form = StoreForm::Reporting;
                    owner.flags.imap_call(service, &owner.account, form)
                }),
            )),
            is_delivered: false,
        },
        Case {
            name: CASES[6],
            file: "send",
            text: "A message with 4 kB of text, next to a submission of the composed message over SMTP. The service also composes the message, records it in the \
                   database (one commit) and stores a copy in Sent. The throughput is that of delivered messages: it includes the time until the mail server has delivered all messages to their one \
                   recipient. Postfix does not limit the rate of incoming messages (`in_flow_delay = 0s`).",
            route: Box::new(|owner| delivery.http_call(service, &owner.account)),
            counterpart: Some((
                "SMTP",
                Box::new(|owner| delivery.smtp_call(service, &owner.account)),
            )),
            is_delivered: true,
        },
        Case {
            name: CASES[7],
            file: "tokens",
            text: "`POST /api/v1/auth/refresh` exchanges a refresh token for a new pair of tokens. The SQLite database has stored the tokens when the response \
                   arrives. With several clients, one fsync per file serves all clients that wait. The mail server is not used, so there is no counterpart.",
            route: Box::new(|owner| refresh_call(service, owner)),
            counterpart: None,
            is_delivered: false,
        },
        Case {
            name: CASES[8],
            file: "mcp",
            text: "The tool `list_messages` of the agent endpoint for 50 messages, next to the route with the same listing.",
            route: Box::new(|owner| agents.call(service, &owner.account)),
            counterpart: Some((
                "route",
                Box::new(|owner| listing.http_call(service, &owner.account, &owner.mailbox)),
            )),
            is_delivered: false,
        },
    ]
}

fn reading<'a>(
    service: &'a Service,
    operation: &'static Operation,
    file: &'static str,
    text: &'static str,
) -> Case<'a> {
    Case {
        name: operation.name,
        file,
        text,
        route: Box::new(|owner| operation.http_call(service, &owner.account, &owner.mailbox)),
        counterpart: Some((
            "IMAP",
            Box::new(|owner| operation.imap_call(service, &owner.account, &owner.mailbox)),
        )),
        is_delivered: false,
    }
}

/// Returns a call that exchanges its refresh token for the next one. Each call has a session of its
/// own.
fn refresh_call(service: &Service, owner: &Owner) -> anyhow::Result<Call<'static>> {
    let mut client = http::Client::connect(service.address(), "")?;
    let mut tokens = Tokens::sign_in(&mut client, &owner.name)?;
    Ok(Box::new(move || {
        tokens = tokens.refresh(&mut client)?;
        Ok(())
    }))
}

fn compare<'a>(
    case: &Case<'a>,
    owners: &'a [Owner],
    clients: usize,
    workload: &Workload,
    delivery: &Delivery,
) -> anyhow::Result<Figures> {
    let failures = Failures::default();
    let owner = |number: usize| &owners[number % owners.len()];
    let mut right = (0..clients)
        .map(|number| tolerant(&case.route, owner(number), &failures))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let settle = || {
        if case.is_delivered {
            delivery.wait()
        } else {
            Ok(())
        }
    };
    settle()?;
    let (counterpart, mut route) = match &case.counterpart {
        Some((_, open)) => {
            let mut left = (0..clients)
                .map(|number| open(owner(number)))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let [counterpart, route] =
                compare_with_settle(workload, &mut left, &mut right, settle)?;
            (Some(counterpart), route)
        }
        None => (None, measure_alone(workload, &mut right)?),
    };
    drop(right);
    route.errors = failures.count();
    Ok(Figures {
        clients,
        counterpart,
        route,
    })
}

/// Returns a call that counts its failures and then connects again.
fn tolerant<'a, 'b: 'a>(
    open: &'a Open<'b>,
    owner: &'b Owner,
    failures: &'a Failures,
) -> anyhow::Result<Call<'a>> {
    let mut call: Call<'a> = open(owner)?;
    Ok(Box::new(move || {
        if let Err(error) = call() {
            failures.add(&error);
            call = open(owner)?;
        }
        Ok(())
    }))
}

/// Adds the figures to the table of results.
fn add_rows(case: &Case<'_>, figures: &[Figures], report: &mut Report) {
    for Figures {
        clients,
        counterpart,
        route,
    } in figures
    {
        match counterpart {
            Some(raw) => report.throughput(case.name, *clients, raw, route, None),
            None => report.rate(case.name, *clients, route, None),
        }
        let refresh = MAX_REFRESH.iter().find(|(number, _)| number == clients);
        if let Some((_, max)) = refresh.filter(|_| case.name == CASES[7]) {
            report.tail_of(case.name, *clients, route, *max);
        }
        if let Some(raw) = counterpart
            && case.is_delivered
            && *clients == MANY_CLIENTS
        {
            let name = format!("{}, {clients} clients", case.name);
            report.tail(&name, raw, route, Some(MAX_SEND_TAIL));
        }
    }
    if let Some(Figures { clients, route, .. }) = figures.last() {
        report.spread(case.name, *clients, route, MAX_SPREAD);
        report.failures(case.name, *clients, route);
    }
}

/// The number of failed calls.
#[derive(Default)]
struct Failures(AtomicUsize);

impl Failures {
    /// Counts a failed call. Prints the first error.
    fn add(&self, error: &anyhow::Error) {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            eprintln!("{error:#}");
        }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
